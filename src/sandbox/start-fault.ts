/** The error that a client gets when a boot or restore fails. */
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "../system/overload.ts";

/** Overload and lack of room keep their own error. Any other cause is wrapped in `message` as a 500. */
export function startFault(message: string, cause: unknown): Fault {
  if (cause instanceof Fault && cause.status === 503) return cause;
  const shortage = shortageOf(cause);
  if (shortage !== undefined) return overloaded(`the sandbox could not be started (${shortage})`, cause);
  return new Fault(500, message, { cause });
}
