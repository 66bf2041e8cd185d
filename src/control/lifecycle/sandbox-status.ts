/**
 * The meaning of a sandbox's row at a given time. From `endAt` on, every reader treats a run as over, even before its
 * row says so.
 */
import { Fault } from "../../contract/fault.ts";
import type { Sandbox } from "../../store/sandboxes.ts";

/** `in-transition`: at rest soon. `over`: it is being ended, or about to be. */
export type SandboxStatus = "running" | "paused" | "in-transition" | "over";

export function statusOf(sandbox: Sandbox, now: number): SandboxStatus {
  if (sandbox.killWanted) return "over";
  switch (sandbox.state) {
    case "running":
      if (sandbox.endAt > now) return "running";
      return sandbox.autoPause ? "in-transition" : "over";
    case "paused":
      return "paused";
    case "killing":
      return "over";
    default:
      return "in-transition";
  }
}

/** The two states that clients know. Undefined: it is over. */
export function shownState(
  sandbox: Pick<Sandbox, "state" | "killWanted" | "endAt" | "autoPause">,
  now: number,
): "running" | "paused" | undefined {
  if (sandbox.killWanted || sandbox.state === "killing") return undefined;
  if (sandbox.state !== "running" && sandbox.state !== "snapshotting") return "paused";
  if (sandbox.endAt > now) return "running";
  return sandbox.autoPause ? "paused" : undefined;
}

export function notFound(id: string): Fault {
  return new Fault(404, `sandbox "${id}" does not exist, or it has ended`);
}

export function beingEnded(id: string): Fault {
  return new Fault(409, `sandbox "${id}" is being ended; create another one`);
}

export function notGoneYet(id: string, cause?: unknown): Fault {
  return new Fault(
    503,
    `sandbox "${id}" is being ended and is cut off from the network, but not all of it has ended yet; ` +
      "the server continues to end it; delete it again to check the result",
    { cause },
  );
}

export function inTransition(id: string): Fault {
  return new Fault(409, `sandbox "${id}" is being paused, resumed or copied; try again in a moment`);
}
