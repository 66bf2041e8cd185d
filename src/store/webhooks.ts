/** Webhooks, and every past or pending delivery to them. */
import { integer, type Statement, sqlPart, text } from "./engine.ts";
import { BOOLEAN, INTEGER, json, type Stored, Table, TEXT, word } from "./table.ts";

const webhooks = new Table({
  id: TEXT,
  teamId: TEXT,
  name: TEXT,
  url: TEXT,
  /** Types of events. */
  events: json<string[]>(),
  secret: TEXT,
  enabled: BOOLEAN,
  createdAt: INTEGER,
});
export type Webhook = Stored<typeof webhooks>;

export interface Attempt {
  at: number;
  durationMs: number;
  /** Null without a response. */
  statusCode: number | null;
  success: boolean;
  /** Null on success. */
  error: string | null;
}

const deliveries = new Table({
  id: TEXT,
  webhookId: TEXT,
  eventId: TEXT,
  eventType: TEXT,
  sandboxId: TEXT,
  eventAt: INTEGER,
  status: word<"pending" | "success" | "failed">(),
  /** Time of the next attempt; only meaningful while it is pending. */
  nextAt: INTEGER,
  attempts: json<Attempt[]>(),
});
export type Delivery = Stored<typeof deliveries>;

export interface DeliveryFilter {
  webhookId: string;
  from: number;
  to: number;
  /** Empty: both. */
  statuses: readonly ("success" | "failed")[];
  eventType: string | undefined;
  ascending: boolean;
  after: { eventAt: number; id: string } | undefined;
  limit: number;
}

export function webhooksIn(sql: Statement) {
  const hooksRows = webhooks.over(sql);
  const { all, execute, changed, count, number, texts } = deliveries.over(sql);
  return {
    add: (webhook: Webhook) => execute`INSERT INTO webhooks ${webhooks.values(webhook)}`,
    of: (teamId: string) => hooksRows.all`SELECT * FROM webhooks WHERE team_id = ${teamId} ORDER BY created_at, id`,
    secrets: () => texts`SELECT secret FROM webhooks`,
    byId: (id: string) => hooksRows.first`SELECT * FROM webhooks WHERE id = ${id}`,

    replace: (webhook: Webhook) => execute`UPDATE webhooks SET name = ${webhook.name}, url = ${webhook.url},
          secret = ${webhook.secret}, events = ${JSON.stringify(webhook.events)}, enabled = ${webhook.enabled ? 1 : 0}
        WHERE id = ${webhook.id}`,

    /** Removes its deliveries too. */
    remove: (teamId: string, id: string) => changed`DELETE FROM webhooks WHERE team_id = ${teamId} AND id = ${id}`,
    addDelivery: (delivery: Delivery) => execute`INSERT INTO webhook_deliveries ${deliveries.values(delivery)}`,

    noteAttempt: (delivery: Delivery) => execute`UPDATE webhook_deliveries SET status = ${delivery.status},
          next_at = ${delivery.nextAt}, attempts = ${JSON.stringify(delivery.attempts)} WHERE id = ${delivery.id}`,

    /** Webhooks with pending deliveries, and the time of the earliest; most urgent first. */
    async waiting(): Promise<{ webhookId: string; nextAt: number; count: number }[]> {
      const { rows } = await sql`SELECT webhook_id, MIN(next_at) AS next_at, COUNT(*) AS waiting FROM webhook_deliveries
        WHERE status = 'pending' GROUP BY webhook_id ORDER BY MIN(next_at)`;
      return rows.map((row) => ({
        webhookId: text(row.webhook_id),
        nextAt: integer(row.next_at),
        count: integer(row.waiting),
      }));
    },

    waitingFor: (webhookId: string) => number`SELECT COUNT(*) AS waiting FROM webhook_deliveries
        WHERE status = 'pending' AND webhook_id = ${webhookId}`,

    due: (webhookId: string, now: number, limit: number) => all`SELECT * FROM webhook_deliveries
        WHERE status = 'pending' AND webhook_id = ${webhookId} AND next_at <= ${now}
        ORDER BY next_at, event_at, id LIMIT ${limit}`,

    /** Deliveries with at least one attempt. */
    async deliveries(filter: DeliveryFilter): Promise<Delivery[]> {
      const { webhookId, from, to, limit } = filter;
      const status = filter.statuses.length === 1 ? (filter.statuses[0] ?? "") : "";
      const eventType = filter.eventType ?? "";
      const far = filter.ascending ? -1 : Number.MAX_SAFE_INTEGER;
      const { eventAt, id } = filter.after ?? { eventAt: far, id: "" };
      const beyond = filter.ascending
        ? sqlPart`event_at >= ${eventAt} AND (event_at > ${eventAt} OR id > ${id}) ORDER BY event_at ASC`
        : sqlPart`event_at <= ${eventAt} AND (event_at < ${eventAt} OR id > ${id}) ORDER BY event_at DESC`;
      return all`SELECT * FROM webhook_deliveries
        WHERE webhook_id = ${webhookId} AND attempts <> '[]' AND event_at >= ${from} AND event_at <= ${to}
          AND (${status} = '' OR status = ${status}) AND (${eventType} = '' OR event_type = ${eventType})
          AND ${beyond}, id ASC LIMIT ${limit}`;
    },

    removeDeliveriesBefore: (time: number, limit: number) => count`DELETE FROM webhook_deliveries WHERE id IN
        (SELECT id FROM webhook_deliveries WHERE event_at < ${time} ORDER BY event_at LIMIT ${limit})`,

    /** Removes the oldest finished deliveries of webhooks that have more than `kept`. */
    async removeDeliveriesBeyond(kept: number, limit: number): Promise<number> {
      const { rows } = await sql`SELECT webhook_id, COUNT(*) AS kept FROM webhook_deliveries
        GROUP BY webhook_id HAVING COUNT(*) > ${kept} LIMIT ${limit}`;
      let removed = 0;
      for (const row of rows) {
        const surplus = Math.min(limit, integer(row.kept) - kept);
        const { count } = await sql`DELETE FROM webhook_deliveries WHERE id IN
          (SELECT id FROM webhook_deliveries WHERE webhook_id = ${text(row.webhook_id)} AND status <> 'pending'
            ORDER BY event_at LIMIT ${surplus})`;
        removed += count;
      }
      return removed;
    },
  };
}
