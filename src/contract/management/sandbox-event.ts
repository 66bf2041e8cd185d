/** Events of sandboxes on the management API. */
import { z } from "zod";
import { dateTime } from "./identifiers.ts";
import { EVENT_PAGE_DEFAULT, PAGE_MAX } from "./limits.ts";

export const EVENT_TYPE_PREFIX = "sandbox.lifecycle.";
export const EVENT_TYPES = [
  "sandbox.lifecycle.created",
  "sandbox.lifecycle.killed",
  "sandbox.lifecycle.paused",
  "sandbox.lifecycle.resumed",
  "sandbox.lifecycle.updated",
  "sandbox.lifecycle.checkpointed",
] as const;

export const eventType = z.enum(EVENT_TYPES as unknown as readonly [string, ...string[]]);

export const sandboxEvent = z.object({
  id: z.uuid(),
  version: z.string(),
  type: eventType,
  timestamp: dateTime,
  eventCategory: z.string().describe("Deprecated; part of the type"),
  eventLabel: z.string().describe("Deprecated; part of the type"),
  eventData: z
    .record(z.string(), z.unknown())
    .describe(
      "sandbox_metadata (beyond 16 Ki characters, metadata_left_out instead); for killed and paused also execution; a note where there is more to say",
    ),
  sandboxId: z.string(),
  sandboxExecutionId: z.string(),
  sandboxTemplateId: z.string(),
  sandboxBuildId: z.string(),
  sandboxTeamId: z.uuid(),
});

export const trueOrFalse = z.enum(["true", "false"]).default("false");

export const listEventsQuery = z.object({
  offset: z.int32().min(0).default(0),
  limit: z.int32().min(1).max(PAGE_MAX).default(EVENT_PAGE_DEFAULT),
  orderAsc: trueOrFalse.describe("Oldest first"),
  types: z.array(eventType).optional().describe("Repeated or comma-separated; all when absent"),
});

export type SandboxEventView = z.infer<typeof sandboxEvent>;
