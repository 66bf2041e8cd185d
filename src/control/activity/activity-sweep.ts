/** Removes old and surplus records and downsamples aged metrics, in short steps between which other work runs. */
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import { IDEMPOTENCY_KEY_KEPT_MS } from "../../contract/management/limits.ts";
import type { Store } from "../../store/store.ts";
import type { TeamActivity } from "../../store/team-activity.ts";
import { LOGIN_MS } from "../access/logins.ts";
import { AGING, downsampled } from "./metric-downsampling.ts";
import { coarser } from "./team-points.ts";

/** Records are removed in steps of this many rows. */
const ACTIVITY_SWEEP_ROWS = 200;
const ACTIVITY_SWEEP_STEPS = 50;
/** Beyond these, the oldest lines and deliveries are removed. */
const LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
const DELIVERIES_KEPT_MAX = 10_000;

/** Build logs per team: those of the builds that ended first go first, this many entries in a step. */
const BUILD_LOG_BYTES_PER_TEAM_MAX = 512 * 1024 * 1024;
const BUILD_LOG_SWEEP_ENTRIES = 5_000;

export async function sweepActivity(store: Store, now: number): Promise<void> {
  const before = now - ACTIVITY_KEPT_MS;
  const rows = ACTIVITY_SWEEP_ROWS;
  await inSteps(() => store.sandboxLogs.removeBefore(before, rows));
  await inSteps(() => store.transaction(({ buildLogs }) => buildLogs.removeBefore(before, BUILD_LOG_SWEEP_ENTRIES)));
  await inSteps(() => store.metricBlocks.removeBefore(before, rows));
  await inSteps(() => store.webhooks.removeDeliveriesBefore(before, rows));
  await inSteps(() => store.sandboxEvents.removeBefore(before, rows));
  await inSteps(() => store.webhooks.removeDeliveriesBeyond(DELIVERIES_KEPT_MAX, rows));
  await inSteps(() => store.teamActivity.removeBefore(before, rows));
  await inSteps(() => store.idempotencyKeys.removeBefore(now - IDEMPOTENCY_KEY_KEPT_MS, rows));
  await inSteps(() => store.logins.removeBefore(now - LOGIN_MS, rows));
  await inSteps(() => shrinkTeams(store, rows));
  await inSteps(() => shrinkBuildLogs(store));
  for (const { olderThanMs, stepMs } of AGING) {
    await inSteps(() => thin(store, now - olderThanMs, stepMs, rows));
    await inSteps(() => coarsen(store, now - olderThanMs, stepMs, rows));
  }
}

/** Repeats a step until it has nothing left to do. What remains after the last step waits for the next round. */
async function inSteps(step: () => Promise<number>): Promise<void> {
  for (let steps = 0; steps < ACTIVITY_SWEEP_STEPS; steps++) if ((await step()) === 0) return;
}

async function shrinkTeams(store: Store, rows: number): Promise<number> {
  let removed = 0;
  for (const team of await store.sandboxLogs.teamsAbove(LOG_BYTES_PER_TEAM_MAX)) {
    removed += await store.sandboxLogs.removeOldestOfTeam(team, rows);
  }
  return removed;
}

async function shrinkBuildLogs(store: Store): Promise<number> {
  let removed = 0;
  for (const team of await store.buildLogs.teamsAbove(BUILD_LOG_BYTES_PER_TEAM_MAX)) {
    removed += await store.transaction(({ buildLogs }) => buildLogs.removeOldestOfTeam(team, BUILD_LOG_SWEEP_ENTRIES));
  }
  return removed;
}

async function thin(store: Store, before: number, stepMs: number, rows: number): Promise<number> {
  const blocks = await store.metricBlocks.denserThan(stepMs, before, rows);
  if (blocks.length === 0) return 0;
  await store.transaction(async (tables) => {
    for (const block of blocks) {
      await tables.metricBlocks.put({ ...block, stepMs, samples: downsampled(block.samples, stepMs) });
    }
  });
  return blocks.length;
}

/** A time step may be merged in several rounds: later rows are added to the row that the first round made. */
function coarsen(store: Store, before: number, stepMs: number, rows: number): Promise<number> {
  return store.transaction(async ({ teamActivity }) => {
    const dense = await teamActivity.denserThan(stepMs, before, rows);
    const stepOfRow = ({ at }: TeamActivity) => Math.floor(at / stepMs) * stepMs;
    for (const [first, ...rest] of Map.groupBy(dense, (row) => `${row.teamId} ${stepOfRow(row)}`).values()) {
      if (first === undefined) continue;
      const at = stepOfRow(first);
      const made = first.at === at ? undefined : await teamActivity.at(first.teamId, at);
      for (const row of [first, ...rest]) await teamActivity.remove(row);
      await teamActivity.put(coarser(made === undefined ? [first, ...rest] : [made, first, ...rest], at, stepMs));
    }
    return dense.length;
  });
}
