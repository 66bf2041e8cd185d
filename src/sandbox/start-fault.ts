/** What a start that failed, from nothing or from a checkpoint, is to whoever asked for it. */
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "../system/overload.ts";

/** No room and no time are not failures of ours; they say so themselves. Anything else is `message`, with its cause. */
export function startFault(message: string, cause: unknown): Fault {
  if (cause instanceof Fault && cause.status === 503) return cause;
  const shortage = shortageOf(cause);
  if (shortage !== undefined) return overloaded(`the sandbox could not be started (${shortage})`, cause);
  return new Fault(500, message, { cause });
}
