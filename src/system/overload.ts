/** A timeout or a shortage of resources on this machine. It may pass, so the client gets a Retry-After. */
import { systemCode } from "../base/system-code.ts";
import { Fault } from "../contract/fault.ts";

const OVERLOAD_RETRY_AFTER_SECONDS = 5;

/** `what` names the step and its timeout; a tool's output goes into the cause. */
export function overloaded(what: string, cause?: unknown): Fault {
  const retryAfterSeconds = OVERLOAD_RETRY_AFTER_SECONDS;
  return new Fault(503, `${what}; the machine may be overloaded`, { cause, retryAfterSeconds });
}

/** The kernel's codes for too many processes, open files, or pages in use. */
const SHORTAGES: ReadonlySet<string> = new Set(["EAGAIN", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** The code of the shortage, if this error or its cause is one. */
export function shortageOf(error: unknown): string | undefined {
  const codes = [error, error instanceof Error ? error.cause : undefined].map(systemCode);
  return codes.find((code) => SHORTAGES.has(code));
}
