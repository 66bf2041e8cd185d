/** Converts a recorded event into its API form. */
import type { SandboxEventView } from "../../contract/management/sandbox-event.ts";
import type { SandboxEvent } from "../../store/sandbox-events.ts";

export function asEvent(event: SandboxEvent): SandboxEventView {
  return {
    id: event.id,
    version: "v2",
    type: event.type,
    timestamp: new Date(event.at).toISOString(),
    eventCategory: "lifecycle",
    eventLabel: event.type.split(".").at(-1) ?? "",
    eventData: event.detail,
    sandboxId: event.sandboxId,
    sandboxExecutionId: event.executionId,
    sandboxTemplateId: event.templateId,
    sandboxBuildId: event.buildId,
    sandboxTeamId: event.teamId,
  };
}
