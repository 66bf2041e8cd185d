/**
 * What happened to sandboxes, told once by whoever made it happen. Logs, the list of events and webhooks live on it.
 */
import type { Sandbox } from "../../store/sandboxes.ts";

export type LifecycleEvent = "created" | "killed" | "paused" | "resumed" | "updated" | "checkpointed";

export interface LifecycleListener {
  /**
   * Called after the change has been recorded. `sandbox` is as it was during the run that the event is about. Never
   * throws and never waits. `note` says in words what a reader of the sandbox's log should know (why it ended, that
   * memory was lost …).
   */
  tell(event: LifecycleEvent, sandbox: Sandbox, note?: string): void;
  /** For the sandbox's log only: something that is no event of its life, such as a pause that had to be put off. */
  warn(sandbox: Sandbox, message: string): void;
}

/** Both are told, in this order. */
export function bothListeners(first: LifecycleListener, second: LifecycleListener): LifecycleListener {
  return {
    tell(event, sandbox, note) {
      first.tell(event, sandbox, note);
      second.tell(event, sandbox, note);
    },
    warn(sandbox, message) {
      first.warn(sandbox, message);
      second.warn(sandbox, message);
    },
  };
}

export const NO_LISTENER: LifecycleListener = { tell: () => undefined, warn: () => undefined };
