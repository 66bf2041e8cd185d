/** Pages of webhook deliveries. */
import type { z } from "zod";
import type { DeliveriesQuery, deliveriesView } from "../../contract/management/webhook.ts";
import type { Store } from "../../store/store.ts";
import type { Delivery } from "../../store/webhooks.ts";
import { pageOf, readPageToken } from "./page-token.ts";

export async function listDeliveries(
  store: Store,
  webhookId: string,
  query: DeliveriesQuery,
): Promise<z.infer<typeof deliveriesView>> {
  const found = await store.webhooks.deliveries({
    webhookId,
    from: query.start === undefined ? 0 : Date.parse(query.start),
    to: query.end === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(query.end),
    statuses: query.deliveryStatus ?? [],
    eventType: query.eventType,
    ascending: query.orderAsc === "true",
    after: query.cursor === undefined ? undefined : readCursor(query.cursor),
    limit: query.limit + 1,
  });
  const { page, nextToken } = pageOf(found, query.limit, ({ eventAt, id }) => `${eventAt}__${id}`);
  return { data: page.map(asDelivery), nextCursor: nextToken ?? null };
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

function readCursor(cursor: string): { eventAt: number; id: string } {
  const [eventAt, id = ""] = readPageToken(cursor, /^(\d{1,15})__([0-9a-f-]{36})$/);
  return { eventAt: Number(eventAt), id };
}
