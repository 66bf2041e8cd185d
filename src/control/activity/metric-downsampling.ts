/** Downsampling of metrics: the distance between samples, by the length of the requested span and by their age. */
import type { Sample } from "../../store/metric-blocks.ts";

const HOUR_MS = 3_600_000;

/** [span or age below this, distance between samples], in milliseconds. */
const STEPS: readonly (readonly [number, number])[] = [
  [HOUR_MS, 5_000],
  [6 * HOUR_MS, 30_000],
  [12 * HOUR_MS, 60_000],
  [24 * HOUR_MS, 120_000],
  [7 * 24 * HOUR_MS, 300_000],
];
const LONGEST_STEP_MS = 900_000;

export function stepOf(spanMs: number): number {
  return STEPS.find(([below]) => spanMs < below)?.[1] ?? LONGEST_STEP_MS;
}

/** Distance by minimum age, oldest first. */
export const AGING: readonly { olderThanMs: number; stepMs: number }[] = STEPS.slice(0, -1)
  .map(([olderThanMs], at) => ({ olderThanMs, stepMs: STEPS[at + 1]?.[1] ?? LONGEST_STEP_MS }))
  .reverse();

/** One sample per step: the mean processor use, and the other values of the sample with the most memory in use. */
export function downsampled(samples: readonly Sample[], stepMs: number): Sample[] {
  const steps = Map.groupBy(samples, ({ at }) => Math.floor(at / stepMs));
  return [...steps.values()].map((group) => {
    const fullest = group.reduce((most, sample) => (sample.memUsed > most.memUsed ? sample : most));
    const mean = group.reduce((sum, { cpuUsedPct }) => sum + cpuUsedPct, 0) / group.length;
    return { ...fullest, at: group.at(-1)?.at ?? fullest.at, cpuUsedPct: Math.round(mean * 100) / 100 };
  });
}
