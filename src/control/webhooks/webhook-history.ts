/** Statistics of webhook deliveries. */
import type { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import { PAGE_MAX } from "../../contract/management/limits.ts";
import type { statsQuery, statsView } from "../../contract/management/webhook.ts";
import type { Store } from "../../store/store.ts";
import type { Attempt } from "../../store/webhooks.ts";

const WEBHOOK_STATS_BUCKET_MS = 3_600_000;

const DAY_MS = 24 * 3_600_000;

export async function statsOf(
  store: Store,
  webhookId: string,
  query: z.infer<typeof statsQuery>,
  now: number,
): Promise<z.infer<typeof statsView>> {
  const end = query.end === undefined ? now : Date.parse(query.end);
  const start = query.start === undefined ? end - DAY_MS : Date.parse(query.start);
  if (start > end) throw new Fault(400, "start is after end");
  // There is no data outside this range, and a year has thousands of hours.
  const to = Math.min(end, now);
  const from = Math.min(Math.max(start, now - ACTIVITY_KEPT_MS), to);
  const count = Math.max(1, Math.ceil((to - from) / WEBHOOK_STATS_BUCKET_MS));
  const buckets = Array.from({ length: count }, (_, nth) => {
    return { at: from + nth * WEBHOOK_STATS_BUCKET_MS, total: 0, failed: 0 };
  });
  const durations = { minimum: Number.POSITIVE_INFINITY, sum: 0, maximum: 0 };
  let [total, failed] = [0, 0];
  for await (const { at, success, durationMs } of attemptsOf(store, webhookId, from, to)) {
    // The last moment belongs to the last hour.
    const bucket = buckets[Math.min(count - 1, Math.floor((at - from) / WEBHOOK_STATS_BUCKET_MS))];
    total++;
    if (bucket) bucket.total++;
    if (!success) failed++;
    if (bucket && !success) bucket.failed++;
    durations.minimum = Math.min(durations.minimum, durationMs);
    durations.maximum = Math.max(durations.maximum, durationMs);
    durations.sum += durationMs;
  }
  return {
    buckets: buckets.map(({ at, ...counted }) => ({ timestamp: new Date(at).toISOString(), ...counted })),
    total,
    failed,
    durationMs: {
      minimum: total === 0 ? 0 : durations.minimum,
      average: total === 0 ? 0 : durations.sum / total,
      maximum: durations.maximum,
    },
  };
}

/** Attempts come after their event, so earlier events are included too. */
async function* attemptsOf(store: Store, webhookId: string, from: number, to: number): AsyncGenerator<Attempt> {
  const filter = { webhookId, from: 0, to, statuses: [], eventType: undefined, ascending: true, limit: PAGE_MAX };
  for (let after: { eventAt: number; id: string } | undefined; ; ) {
    const page = await store.webhooks.deliveries({ ...filter, after });
    for (const { attempts } of page) yield* attempts.filter(({ at }) => at >= from && at <= to);
    after = page.at(-1);
    if (page.length < PAGE_MAX) return;
  }
}
