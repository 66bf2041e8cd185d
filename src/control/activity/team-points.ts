/**
 * Computes the values of a team's activity from its rows: points at regular times, peaks, and coarser rows for old
 * data.
 */
import type { TeamMetricName } from "../../contract/management/team-metric.ts";
import type { TeamActivity } from "../../store/team-activity.ts";
import { METRIC_EVERY_MS } from "../limits.ts";
import { stepOf } from "./metric-downsampling.ts";

/** Both ends are inclusive. */
export interface Window {
  from: number;
  to: number;
  now: number;
}

export interface TeamPoint {
  at: number;
  /** Maximum number at once within the step. */
  concurrentSandboxes: number;
  /** Starts per second, averaged over the step. */
  sandboxStartRate: number;
}

export interface Peak {
  at: number;
  value: number;
}

export function stepIn({ from, to, now }: Window): number {
  return Math.max(stepOf(to - from), stepOf(now - from));
}

/** Starts at the first row, where the record begins. The row before the window gives the initial value. */
export function pointsIn(rows: readonly TeamActivity[], window: Window): TeamPoint[] {
  const { from, to, now } = window;
  const [first] = rows;
  if (first === undefined || from > to) return [];
  const stepMs = stepIn(window);
  const steps = Map.groupBy(rows, ({ at }) => Math.floor(at / stepMs));
  const begin = Math.floor(Math.max(from, first.at) / stepMs);
  let running = rows.findLast(({ at }) => at < begin * stepMs)?.closing ?? first.opening;
  const points: TeamPoint[] = [];
  for (let step = begin; step * stepMs <= to; step++) {
    const inStep = steps.get(step) ?? [];
    const starts = inStep.reduce((sum, row) => sum + row.starts, 0);
    // The newest step is not complete.
    const lastedMs = Math.min(stepMs, Math.max(METRIC_EVERY_MS, now - step * stepMs));
    points.push({
      at: Math.max(step * stepMs, from),
      concurrentSandboxes: Math.max(running, ...inStep.map(({ peak }) => peak)),
      sandboxStartRate: perSecond(starts, lastedMs),
    });
    running = inStep.at(-1)?.closing ?? running;
  }
  return points;
}

/** The highest value and its first time; zero without data for the window. */
export function highestIn(rows: readonly TeamActivity[], metric: TeamMetricName, { from, to }: Window): Peak {
  const inWindow = rows.filter(({ at, stepMs }) => at + stepMs > from && at <= to);
  const before = rows.findLast(({ at, stepMs }) => at + stepMs <= from);
  const values = inWindow.map((row) => ({
    at: Math.max(row.at, from),
    value: metric === "concurrent_sandboxes" ? row.peak : perSecond(row.busiest, METRIC_EVERY_MS),
  }));
  const carried = metric === "concurrent_sandboxes" ? (before?.closing ?? 0) : 0;
  return values.reduce((highest, one) => (one.value > highest.value ? one : highest), { at: from, value: carried });
}

/** Merges rows of one team, given in order, into one. */
export function coarser(rows: readonly [TeamActivity, ...TeamActivity[]], at: number, stepMs: number): TeamActivity {
  const [first] = rows;
  return {
    teamId: first.teamId,
    at,
    stepMs,
    opening: first.opening,
    closing: rows.at(-1)?.closing ?? first.closing,
    peak: Math.max(...rows.map(({ peak }) => peak)),
    starts: rows.reduce((sum, { starts }) => sum + starts, 0),
    busiest: Math.max(...rows.map(({ busiest }) => busiest)),
  };
}

function perSecond(starts: number, ms: number): number {
  return Math.round((starts * 1e9) / ms) / 1e6;
}
