/** How close together samples are: by how long a time is asked for, and by how old they are. */
import type { Sample } from "../../store/metric-blocks.ts";

const HOUR_MS = 3_600_000;

/** As long as a span, or an age, is below the first, samples are the second apart. */
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

/** From which age on samples lie how far apart, the oldest first. */
export const AGING: readonly { olderThanMs: number; stepMs: number }[] = STEPS.slice(0, -1)
  .map(([olderThanMs], at) => ({ olderThanMs, stepMs: STEPS[at + 1]?.[1] ?? LONGEST_STEP_MS }))
  .reverse();

/** One sample for each step: the processor's mean, and the rest as it was when most memory was used. */
export function thinned(samples: readonly Sample[], stepMs: number): Sample[] {
  const steps = Map.groupBy(samples, ({ at }) => Math.floor(at / stepMs));
  return [...steps.values()].map((group) => {
    const fullest = group.reduce((most, sample) => (sample.memUsed > most.memUsed ? sample : most));
    const mean = group.reduce((sum, { cpuUsedPct }) => sum + cpuUsedPct, 0) / group.length;
    return { ...fullest, at: group.at(-1)?.at ?? fullest.at, cpuUsedPct: Math.round(mean * 100) / 100 };
  });
}
