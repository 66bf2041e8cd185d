/**
 * The one answer to a wait that ran out on this machine, or to a resource that it is short of: it may be over in a
 * moment, so the caller is told to come again.
 */
import { Fault } from "../contract/fault.ts";

/** When to come again after a wait ran out on this machine. */
const OVERLOAD_RETRY_AFTER_SECONDS = 5;

/** `what` says which step did not end, and after how long; what a tool said goes into the cause. */
export function overloaded(what: string, cause?: unknown): Fault {
  const headers = { "retry-after": String(OVERLOAD_RETRY_AFTER_SECONDS) };
  return new Fault(503, `${what}; the machine may be overloaded`, { cause, headers });
}

/** What the kernel says when there are too many processes, open files, or pages in use. */
const SHORTAGES: ReadonlySet<string> = new Set(["EAGAIN", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** The kernel's word for it, if this error is of a shortage, or is around one that is. */
export function shortageOf(error: unknown): string | undefined {
  const codes = [error, error instanceof Error ? error.cause : undefined].map(
    (each) => (each as NodeJS.ErrnoException | null | undefined)?.code,
  );
  return codes.find((code) => code !== undefined && SHORTAGES.has(code));
}
