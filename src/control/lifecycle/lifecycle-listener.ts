/**
 * Events of sandboxes, reported once by the code that caused them. Logs, the event list and webhooks depend on them.
 */
import type { Sandbox } from "../../store/sandboxes.ts";

export type LifecycleEvent = "created" | "killed" | "paused" | "resumed" | "updated" | "checkpointed";

export interface LifecycleListener {
  /**
   * Called after the change is recorded. `sandbox` is the row during the run that the event is about. Never throws and
   * never waits. `note` adds what a reader of the sandbox's log should know (why it ended, that memory was lost …).
   */
  onEvent(event: LifecycleEvent, sandbox: Sandbox, note?: string): void;
  /** For the sandbox's log only: something that is not an event, such as a postponed pause. */
  warn(sandbox: Sandbox, message: string): void;
}

/** The note of an event that moved the end of a run. */
export function newEnd({ endAt }: Sandbox): string {
  return `its timeout ends at ${new Date(endAt).toISOString()}`;
}
