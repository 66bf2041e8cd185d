/**
 * Faults that carry an error code of the Connect protocol. Services throw what `refuse` builds; how that looks on the
 * wire is the business of rpc/connect-errors.ts. Nothing of the protocol's library is needed here, for every part of
 * the guest uses this, also those that run before any call.
 */
import { Fault } from "../../contract/fault.ts";

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

export type RpcCode = keyof typeof STATUSES;

export function isRpcCode(code: string): code is RpcCode {
  return Object.hasOwn(STATUSES, code);
}

export function refuse(code: RpcCode, message: string, cause?: unknown): Fault {
  return new Fault(STATUSES[code], message, { errorCode: code, cause });
}

/** The client broke the connection off in the middle: nobody is left to answer and nothing is wrong here. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

/** The system's error code (`ENOENT`), or an empty string for errors that are not the system's. */
export function systemCode(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
}
