/** The error that a client gets when a boot or restore fails, and whether a create is tried once more. */
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded, shortageOf } from "../system/overload.ts";

/** Overload and lack of room keep their own error. Any other cause is wrapped in `message` as a 500. */
export function startFault(message: string, cause: unknown): Fault {
  if (cause instanceof Fault && cause.status === 503) return cause;
  const shortage = shortageOf(cause);
  if (shortage !== undefined) return overloaded(`the sandbox could not be started (${shortage})`, cause);
  return new Fault(500, message, { cause });
}

export const RETRY_WITHIN_MS = scaled(25_000);

/**
 * Throws unless a failed create is to be tried once more, because its cause may have passed: a process killed for lack
 * of memory, a device taken by another server at the same moment, a sandbox that ended unnoticed. A Fault with a
 * specific status (no room, no such image, a timeout) is final: the caller can act on it better than a retry can. After
 * a failure so slow that the caller may soon give up, Fault 503 reports an overloaded machine.
 */
export function requireRetryable(cause: unknown, tookMs: number): void {
  if (Fault.from(cause).status !== 500) throw cause;
  if (tookMs > RETRY_WITHIN_MS) throw overloaded(`the sandbox did not start, for ${Math.round(tookMs)} ms`, cause);
}
