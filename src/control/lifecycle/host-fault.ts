/**
 * Turns a fault of the host into the fault that a client gets. Clients look for the phrase that begins the message of a
 * failed start. Output of the machine's tools goes to the operator's log, never to a tenant.
 */
import { Fault } from "../../contract/fault.ts";

/**
 * The host writes the messages of these for the caller: the state cannot be checkpointed, it does not fit, the disk is
 * full.
 */
const FOR_CALLERS: ReadonlySet<number> = new Set([422, 507]);

/** A sandbox could not be started. `otherwise` ends the message of faults whose details the caller must not see. */
export function placementFault(cause: unknown, otherwise = "it could not be started"): Fault {
  const fault = Fault.from(cause);
  const headers = { ...fault.headers };
  if (FOR_CALLERS.has(fault.status)) return fault;
  if (fault.status === 503 || fault.status === 404) {
    // A missing image or checkpoint must not read as a missing template or sandbox.
    const errorCode = fault.status === 404 ? "sandbox_no_compatible_node" : "sandbox_capacity_unavailable";
    return new Fault(503, `Failed to place sandbox: ${fault.message}`, { cause, errorCode, headers });
  }
  const message = `Failed to place sandbox: ${otherwise}; the server's log has the details`;
  return new Fault(500, message, { cause, errorCode: "sandbox_create_failed", headers });
}

/**
 * A paused sandbox could not be resumed. If its checkpoint or image is missing, for example after the restore of a
 * backup that lacks it, another attempt cannot help, so this is not a 503.
 */
export function resumeFault(cause: unknown, id: string): Fault {
  const fault = Fault.from(cause);
  if (fault.status !== 404) return placementFault(cause, "it could not be resumed and stays paused");
  const message =
    `sandbox "${id}" cannot be resumed: ${fault.message}. It stays paused; the operator of the server may bring the ` +
    "missing part back, for example from a backup, or you may delete the sandbox";
  return new Fault(422, message, { cause, errorCode: "sandbox_no_compatible_node" });
}

/** The egress rules of a running sandbox could not be changed. */
export function egressFault(cause: unknown, id: string): Fault {
  return runningFault(cause, id, `the network rules of sandbox "${id}" could not be changed; the earlier rules stay`);
}

/** A running sandbox could not be checkpointed. */
export function captureFault(cause: unknown, id: string): Fault {
  return runningFault(cause, id, `sandbox "${id}" could not be checkpointed and is still running`);
}

function runningFault(cause: unknown, id: string, otherwise: string): Fault {
  const fault = Fault.from(cause);
  if (FOR_CALLERS.has(fault.status) || fault.status === 503) return fault;
  if (fault.status === 404) return new Fault(404, `sandbox "${id}" does not exist, or it has ended`, { cause });
  return new Fault(500, `${otherwise}; the server's log has the details`, { cause });
}
