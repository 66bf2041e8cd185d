/**
 * Faults with Connect error codes. Services throw the result of `refuse`; rpc/connect-errors.ts converts it for the
 * wire. This file does not import the protocol library, because parts of the guest use it before any call.
 */
import { Fault } from "../../contract/fault.ts";

/** All codes that clients meet; the protocol library sends `canceled` and `deadline_exceeded` itself. */
const STATUSES = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unauthenticated: 401,
} as const;

export function refuse(code: keyof typeof STATUSES, message: string, cause?: unknown): Fault {
  return new Fault(STATUSES[code], message, { errorCode: code, cause });
}

/** Whether the client aborted the connection: no response is needed, and nothing failed in the guest. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}
