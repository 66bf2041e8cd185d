/** What was sent to a webhook: page by page, and summed up. */
import type { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { PAGE_MAX } from "../../contract/management/limits.ts";
import type { DeliveriesQuery, deliveriesView, statsQuery, statsView } from "../../contract/management/webhook.ts";
import type { Store } from "../../store/store.ts";
import type { Attempt, Delivery } from "../../store/webhooks.ts";
import { WEBHOOK_STATS_BUCKETS } from "../limits.ts";

const DAY_MS = 24 * 3_600_000;
const SEPARATOR = "__";

export async function listDeliveries(
  store: Store,
  webhookId: string,
  query: DeliveriesQuery,
): Promise<z.infer<typeof deliveriesView>> {
  const ascending = query.orderAsc === "true";
  const deliveries = await store.webhooks.deliveries({
    webhookId,
    from: query.start === undefined ? 0 : Date.parse(query.start),
    to: query.end === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(query.end),
    statuses: query.deliveryStatus ?? [],
    eventType: query.eventType,
    ascending,
    after: query.cursor === undefined ? undefined : readCursor(query.cursor),
    limit: query.limit + 1,
  });
  const page = deliveries.slice(0, query.limit);
  const last = page.at(-1);
  const nextCursor = deliveries.length > query.limit && last !== undefined ? writeCursor(last) : null;
  return { data: page.map(asDelivery), nextCursor };
}

export async function statsOf(
  store: Store,
  webhookId: string,
  query: z.infer<typeof statsQuery>,
  now: number,
): Promise<z.infer<typeof statsView>> {
  const to = query.end === undefined ? now : Date.parse(query.end);
  const from = query.start === undefined ? to - DAY_MS : Date.parse(query.start);
  if (from > to) throw new Fault(400, "start is after end");
  const widthMs = Math.max(1, Math.ceil((to - from + 1) / WEBHOOK_STATS_BUCKETS));
  const count = Math.ceil((to - from + 1) / widthMs);
  const buckets = Array.from({ length: count }, (_, nth) => ({ at: from + nth * widthMs, total: 0, failed: 0 }));
  const durations = { minimum: Number.POSITIVE_INFINITY, sum: 0, maximum: 0 };
  let [total, failed] = [0, 0];
  for await (const { at, success, durationMs } of attemptsOf(store, webhookId, from, to)) {
    const bucket = buckets[Math.floor((at - from) / widthMs)];
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

/** Tries are made after their event, so those of earlier events are looked at, too. */
async function* attemptsOf(store: Store, webhookId: string, from: number, to: number): AsyncGenerator<Attempt> {
  const filter = { webhookId, from: 0, to, statuses: [], eventType: undefined, ascending: true, limit: PAGE_MAX };
  for (let after: { eventAt: number; id: string } | undefined; ; ) {
    const page = await store.webhooks.deliveries({ ...filter, after });
    for (const { attempts } of page) yield* attempts.filter(({ at }) => at >= from && at <= to);
    after = page.at(-1);
    if (page.length < PAGE_MAX) return;
  }
}

function asDelivery({ id, eventId, eventType, sandboxId, attempts }: Delivery) {
  return {
    eventId,
    eventType,
    sandboxId,
    attempts: attempts.map(({ at, ...attempt }) => ({
      deliveryId: id,
      timestamp: new Date(at).toISOString(),
      ...attempt,
    })),
  };
}

function writeCursor({ eventAt, id }: Delivery): string {
  return Buffer.from(`${eventAt}${SEPARATOR}${id}`).toString("base64url");
}

function readCursor(cursor: string): { eventAt: number; id: string } {
  const [eventAt = "", id = ""] = Buffer.from(cursor, "base64url").toString("utf8").split(SEPARATOR);
  if (!/^\d{1,15}$/.test(eventAt) || !/^[0-9a-f-]{36}$/.test(id)) {
    throw new Fault(400, "invalid cursor; send nextCursor of the page before, unchanged");
  }
  return { eventAt: Number(eventAt), id };
}
