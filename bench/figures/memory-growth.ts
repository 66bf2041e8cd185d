/**
 * Detects whether a process leaks memory. Garbage collection makes memory use a saw-tooth, so only growth of its minima
 * counts as a leak. The height of the teeth has its own limit.
 */
import { mib } from "./resident-memory.ts";
import { quantile } from "./samples.ts";

const MIB = 1024 ** 2;
/** A quantile instead of the minimum, which may be low by chance. */
const FOOT = 0.05;
const FOOT_GROWTH_MAX_BYTES = 6 * MIB;
const TOOTH_MAX_BYTES = 32 * MIB;

interface Growth {
  text: string;
  tooMuch: boolean;
}

/** Compares the first third of the time with the last. Each should be long enough for one garbage collection. */
export function growth(name: string, samples: readonly number[]): Growth {
  const third = Math.max(1, Math.floor(samples.length / 3));
  const before = quantile(samples.slice(0, third), FOOT);
  const after = quantile(samples.slice(-third), FOOT);
  const peak = Math.max(...samples);
  return {
    text: `memory of the ${name}: ${mib(before)} MiB at least in the first third, ${mib(after)} in the last, ${mib(peak)} at most`,
    tooMuch: after - before > FOOT_GROWTH_MAX_BYTES || peak - Math.max(before, after) > TOOTH_MAX_BYTES,
  };
}
