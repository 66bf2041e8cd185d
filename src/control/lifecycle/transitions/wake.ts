/**
 * Decides which requests may wake a sandbox. Credentials are checked before anything starts; a running sandbox checks
 * them itself.
 */
import { Fault } from "../../../contract/fault.ts";
import type { WakeRefusal, WakeRequest } from "../../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../../contract/runtime/version.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { isSame } from "../../access/credentials.ts";
import { notFound, statusOf } from "../sandbox-status.ts";

/** The row if the request may proceed, whether or not it wakes the sandbox; else a Fault 404 or 403. */
export function admit(sandbox: Sandbox | undefined, id: string, request: WakeRequest, now: number): Sandbox {
  if (sandbox === undefined) throw notFound(id);
  const status = statusOf(sandbox, now);
  if (status === "over") throw notFound(id);
  if (status === "running" || sandbox.state === "snapshotting") return sandbox;
  // Without its memory the sandbox would boot, which only an explicit resume may ask for.
  const keepsMemory = sandbox.state === "running" ? sandbox.autoPauseMemory : sandbox.checkpointMemory;
  if (!sandbox.autoResume || !keepsMemory) throw notFound(id);
  if (!request.mayWake) {
    if (sandbox.state === "resuming") return sandbox;
    throw notFound(id);
  }
  const refusal = tokenRefusal(sandbox, request);
  if (refusal !== undefined) throw new Unadmitted(id, refusal);
  return sandbox;
}

/** As the edge checks requests to running sandboxes: at the runtime port the runtime's own token takes precedence. */
function tokenRefusal(sandbox: Sandbox, request: WakeRequest): WakeRefusal | undefined {
  if (request.port === RUNTIME_PORT && sandbox.secure) {
    return opens(sandbox.tokens, request.accessToken) ? undefined : "forbidden";
  }
  const { trafficToken } = sandbox;
  if (trafficToken === null || opens([trafficToken], request.trafficToken)) return undefined;
  return request.trafficToken ? "traffic-token-wrong" : "traffic-token-missing";
}

/** The request lacks the required token. */
class Unadmitted extends Fault {
  constructor(
    id: string,
    readonly refusal: WakeRefusal,
  ) {
    super(403, `sandbox "${id}" is paused, and the request has no token that may resume it`);
  }
}

/** The refusal that the edge reports. Unexpected errors are rethrown. */
export function wakeRefusal(error: unknown): WakeRefusal {
  if (error instanceof Unadmitted) return error.refusal;
  switch (Fault.from(error).status) {
    case 403:
      return "forbidden";
    case 409:
      return "in-transition";
    case 429:
      return "limit-reached";
    case 404:
    case 422:
      return "not-found";
    case 503:
      return "unavailable";
    default:
      throw error;
  }
}

/** Compares all tokens, so that the time does not show which of them it is. */
function opens(tokens: readonly string[], given: string | null): boolean {
  return tokens.filter((token) => isSame(given ?? "", token)).length > 0;
}
