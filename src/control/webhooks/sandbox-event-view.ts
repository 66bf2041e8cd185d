/** Converts a recorded event into its API form: camelCase in responses, snake_case and signed for a webhook. */
import type { SandboxEventView } from "../../contract/management/sandbox-event.ts";
import type { SandboxEvent } from "../../store/sandbox-events.ts";
import type { Webhook } from "../../store/webhooks.ts";
import type { Message } from "./webhook-post.ts";

const VERSION = "v2";
const CATEGORY = "lifecycle";

export function asEvent(event: SandboxEvent): SandboxEventView {
  return {
    id: event.id,
    version: VERSION,
    type: event.type,
    timestamp: new Date(event.at).toISOString(),
    eventCategory: CATEGORY,
    eventLabel: labelOf(event),
    eventData: event.detail,
    sandboxId: event.sandboxId,
    sandboxExecutionId: event.executionId,
    sandboxTemplateId: event.templateId,
    sandboxBuildId: event.buildId,
    sandboxTeamId: event.teamId,
  };
}

export function eventMessage(event: SandboxEvent, webhook: Webhook, deliveryId: string): Message {
  const body = JSON.stringify({
    id: event.id,
    version: VERSION,
    type: event.type,
    timestamp: new Date(event.at).toISOString(),
    event_category: CATEGORY,
    event_label: labelOf(event),
    event_data: event.detail,
    sandbox_id: event.sandboxId,
    sandbox_execution_id: event.executionId,
    sandbox_template_id: event.templateId,
    sandbox_build_id: event.buildId,
    sandbox_team_id: event.teamId,
  });
  return {
    url: webhook.url,
    headers: {
      "User-Agent": "sandlot-webhooks",
      "e2b-webhook-id": webhook.id,
      // The same for every attempt, so that a receiver can recognise a repetition.
      "e2b-delivery-id": deliveryId,
      "e2b-signature-version": "v1",
      "e2b-signature": signatureOf(webhook.secret, body),
    },
    body,
  };
}

function signatureOf(secret: string, body: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).update(body).digest("base64").replace(/=+$/, "");
}

function labelOf({ type }: SandboxEvent): string {
  return type.split(".").at(-1) ?? "";
}
