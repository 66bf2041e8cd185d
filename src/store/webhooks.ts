/** Webhooks, and every past or pending delivery to them. */
import { integer, type Row, type Statement, text } from "./engine.ts";

export interface Webhook {
  id: string;
  teamId: string;
  name: string;
  url: string;
  /** Types of events. */
  events: string[];
  secret: string;
  enabled: boolean;
  createdAt: number;
}

type DeliveryStatus = "pending" | "success" | "failed";

export interface Attempt {
  at: number;
  durationMs: number;
  /** Null without a response. */
  statusCode: number | null;
  success: boolean;
  /** Null on success. */
  error: string | null;
}

export interface Delivery {
  id: string;
  webhookId: string;
  eventId: string;
  eventType: string;
  sandboxId: string;
  eventAt: number;
  status: DeliveryStatus;
  /** Time of the next attempt; only meaningful while it is pending. */
  nextAt: number;
  attempts: Attempt[];
}

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
  return {
    async add(webhook: Webhook): Promise<void> {
      await sql`INSERT INTO webhooks (id, team_id, name, url, events, secret, enabled, created_at)
        VALUES (${webhook.id}, ${webhook.teamId}, ${webhook.name}, ${webhook.url}, ${JSON.stringify(webhook.events)},
          ${webhook.secret}, ${webhook.enabled ? 1 : 0}, ${webhook.createdAt})`;
    },

    async of(teamId: string): Promise<Webhook[]> {
      const { rows } = await sql`SELECT * FROM webhooks WHERE team_id = ${teamId} ORDER BY created_at, id`;
      return rows.map(readWebhook);
    },

    async byId(id: string): Promise<Webhook | undefined> {
      const { rows } = await sql`SELECT * FROM webhooks WHERE id = ${id}`;
      return rows[0] && readWebhook(rows[0]);
    },

    async replace(webhook: Webhook): Promise<void> {
      await sql`UPDATE webhooks SET name = ${webhook.name}, url = ${webhook.url}, secret = ${webhook.secret},
          events = ${JSON.stringify(webhook.events)}, enabled = ${webhook.enabled ? 1 : 0} WHERE id = ${webhook.id}`;
    },

    /** Removes its deliveries too. */
    async remove(teamId: string, id: string): Promise<boolean> {
      const { count } = await sql`DELETE FROM webhooks WHERE team_id = ${teamId} AND id = ${id}`;
      return count === 1;
    },

    async addDelivery(delivery: Delivery): Promise<void> {
      await sql`INSERT INTO webhook_deliveries (id, webhook_id, event_id, event_type, sandbox_id, event_at, status, next_at,
          attempts)
        VALUES (${delivery.id}, ${delivery.webhookId}, ${delivery.eventId}, ${delivery.eventType},
          ${delivery.sandboxId}, ${delivery.eventAt}, ${delivery.status}, ${delivery.nextAt},
          ${JSON.stringify(delivery.attempts)})`;
    },

    async noteAttempt(delivery: Delivery): Promise<void> {
      await sql`UPDATE webhook_deliveries SET status = ${delivery.status}, next_at = ${delivery.nextAt},
          attempts = ${JSON.stringify(delivery.attempts)} WHERE id = ${delivery.id}`;
    },

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

    async waitingFor(webhookId: string): Promise<number> {
      const { rows } = await sql`SELECT COUNT(*) AS waiting FROM webhook_deliveries
        WHERE status = 'pending' AND webhook_id = ${webhookId}`;
      return integer(rows[0]?.waiting);
    },

    async due(webhookId: string, now: number, limit: number): Promise<Delivery[]> {
      const { rows } = await sql`SELECT * FROM webhook_deliveries
        WHERE status = 'pending' AND webhook_id = ${webhookId} AND next_at <= ${now}
        ORDER BY next_at, event_at, id LIMIT ${limit}`;
      return rows.map(readDelivery);
    },

    /** Deliveries with at least one attempt. */
    async deliveries(filter: DeliveryFilter): Promise<Delivery[]> {
      const { webhookId, from, to, limit } = filter;
      const status = filter.statuses.length === 1 ? (filter.statuses[0] ?? "") : "";
      const eventType = filter.eventType ?? "";
      const far = filter.ascending ? -1 : Number.MAX_SAFE_INTEGER;
      const { eventAt, id } = filter.after ?? { eventAt: far, id: "" };
      const { rows } = filter.ascending
        ? await sql`SELECT * FROM webhook_deliveries WHERE webhook_id = ${webhookId} AND attempts <> '[]'
            AND event_at >= ${from} AND event_at <= ${to}
            AND (${status} = '' OR status = ${status}) AND (${eventType} = '' OR event_type = ${eventType})
            AND event_at >= ${eventAt} AND (event_at > ${eventAt} OR id > ${id})
            ORDER BY event_at ASC, id ASC LIMIT ${limit}`
        : await sql`SELECT * FROM webhook_deliveries WHERE webhook_id = ${webhookId} AND attempts <> '[]'
            AND event_at >= ${from} AND event_at <= ${to}
            AND (${status} = '' OR status = ${status}) AND (${eventType} = '' OR event_type = ${eventType})
            AND event_at <= ${eventAt} AND (event_at < ${eventAt} OR id > ${id})
            ORDER BY event_at DESC, id ASC LIMIT ${limit}`;
      return rows.map(readDelivery);
    },

    async removeDeliveriesBefore(time: number, limit: number): Promise<number> {
      const { count } = await sql`DELETE FROM webhook_deliveries WHERE id IN
        (SELECT id FROM webhook_deliveries WHERE event_at < ${time} ORDER BY event_at LIMIT ${limit})`;
      return count;
    },

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

function readWebhook(row: Row): Webhook {
  return {
    id: text(row.id),
    teamId: text(row.team_id),
    name: text(row.name),
    url: text(row.url),
    events: JSON.parse(text(row.events)),
    secret: text(row.secret),
    enabled: integer(row.enabled) === 1,
    createdAt: integer(row.created_at),
  };
}

function readDelivery(row: Row): Delivery {
  return {
    id: text(row.id),
    webhookId: text(row.webhook_id),
    eventId: text(row.event_id),
    eventType: text(row.event_type),
    sandboxId: text(row.sandbox_id),
    eventAt: integer(row.event_at),
    status: text(row.status) as DeliveryStatus,
    nextAt: integer(row.next_at),
    attempts: JSON.parse(text(row.attempts)),
  };
}
