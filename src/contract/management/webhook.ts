/** Webhooks: subscriptions to events, and their deliveries. */
import { z } from "zod";
import { dateTime } from "./identifiers.ts";
import {
  DELIVERY_PAGE_DEFAULT,
  PAGE_MAX,
  PAGE_TOKEN_MAX_CHARS,
  WEBHOOK_NAME_MAX_CHARS,
  WEBHOOK_SECRET_MAX_CHARS,
  WEBHOOK_URL_MAX_CHARS,
} from "./limits.ts";
import { EVENT_TYPES, eventType, trueOrFalse } from "./sandbox-event.ts";

const NUL = "\u0000";

const text = (mostChars: number) =>
  z
    .string()
    .min(1)
    .max(mostChars)
    .refine((given) => !given.includes(NUL), { error: "must not hold NUL" });

const shared = {
  name: text(WEBHOOK_NAME_MAX_CHARS),
  url: z.string().min(1).max(WEBHOOK_URL_MAX_CHARS).describe("http or https, at a public address"),
  events: z
    .array(eventType)
    .min(1)
    .max(EVENT_TYPES.length)
    .refine((types) => new Set(types).size === types.length, { error: "must name each type once" }),
  signatureSecret: text(WEBHOOK_SECRET_MAX_CHARS).describe("Shared with the receiver; no response contains it"),
};

export const createWebhook = z.object({ ...shared, enabled: z.boolean().nullish().describe("True when absent") });
export const updateWebhook = z.object({
  name: shared.name.nullish(),
  url: shared.url.nullish(),
  events: shared.events.nullish(),
  signatureSecret: shared.signatureSecret.nullish(),
  enabled: z.boolean().nullish(),
});

export const webhookView = z.object({
  id: z.uuid(),
  teamId: z.uuid(),
  name: z.string(),
  createdAt: dateTime,
  url: z.string(),
  enabled: z.boolean(),
  events: z.array(eventType),
});

const attempt = z.object({
  deliveryId: z.uuid().describe("The same for retries; also in the header e2b-delivery-id"),
  timestamp: dateTime,
  success: z.boolean(),
  statusCode: z.int().nullable().describe("Null without a response"),
  durationMs: z.int().min(0),
  error: z.string().nullable(),
});

export const deliveriesView = z.object({
  data: z.array(z.object({ eventId: z.uuid(), eventType, sandboxId: z.string(), attempts: z.array(attempt) })),
  nextCursor: z.string().nullable(),
});

export const deliveriesQuery = z.object({
  cursor: z.string().max(PAGE_TOKEN_MAX_CHARS).optional().describe("nextCursor of the previous page"),
  limit: z.int32().min(1).max(PAGE_MAX).default(DELIVERY_PAGE_DEFAULT),
  orderAsc: trueOrFalse.describe("Oldest first"),
  start: dateTime.optional().describe("By the time of the event, inclusive"),
  end: dateTime.optional().describe("By the time of the event, inclusive"),
  deliveryStatus: z
    .array(z.enum(["success", "failed"]))
    .optional()
    .describe("Comma-separated; default: both, and deliveries in progress"),
  eventType: eventType.optional(),
});

export const statsQuery = z.object({
  start: dateTime.optional().describe("24 hours ago when absent"),
  end: dateTime.optional().describe("Now when absent"),
});

export const statsView = z.object({
  buckets: z
    .array(z.object({ timestamp: dateTime, total: z.int(), failed: z.int() }))
    .describe("One hour each, from start on; data is kept for 7 days"),
  total: z.int().describe("Attempts, including retries"),
  failed: z.int(),
  durationMs: z.object({ minimum: z.number(), average: z.number(), maximum: z.number() }),
});

export type CreateWebhook = z.infer<typeof createWebhook>;
export type UpdateWebhook = z.infer<typeof updateWebhook>;
export type DeliveriesQuery = z.infer<typeof deliveriesQuery>;
