/**
 * The table between this project's Fault and the error codes of the Connect protocol, and the one place where a Fault
 * becomes a ConnectError. Services throw what `refuse` builds and never touch ConnectError themselves.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import { Fault } from "../../contract/fault.ts";
import { logError } from "./log.ts";

const CODES = {
  canceled: { code: Code.Canceled, status: 499 },
  unknown: { code: Code.Unknown, status: 500 },
  invalid_argument: { code: Code.InvalidArgument, status: 400 },
  deadline_exceeded: { code: Code.DeadlineExceeded, status: 504 },
  not_found: { code: Code.NotFound, status: 404 },
  already_exists: { code: Code.AlreadyExists, status: 409 },
  resource_exhausted: { code: Code.ResourceExhausted, status: 429 },
  failed_precondition: { code: Code.FailedPrecondition, status: 400 },
  unimplemented: { code: Code.Unimplemented, status: 501 },
  internal: { code: Code.Internal, status: 500 },
  unauthenticated: { code: Code.Unauthenticated, status: 401 },
} as const;

type RpcCode = keyof typeof CODES;

export function refuse(code: RpcCode, message: string, cause?: unknown): Fault {
  return new Fault(CODES[code].status, message, { errorCode: code, cause });
}

function isRpcCode(code: string): code is RpcCode {
  return Object.hasOwn(CODES, code);
}

/** Whatever a service threw, as the error its caller sees. An error that nobody foresaw is logged and shown blank. */
export function toConnectError(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  if (isAbort(thrown)) return new ConnectError("the client went away", Code.Canceled);
  const fault = Fault.from(thrown);
  if (fault.errorCode !== undefined && isRpcCode(fault.errorCode)) {
    return new ConnectError(fault.message, CODES[fault.errorCode].code, undefined, undefined, fault.cause);
  }
  logError("a call failed for an unforeseen reason", thrown);
  return new ConnectError(
    "internal error; the guest's log has the details",
    Code.Internal,
    undefined,
    undefined,
    thrown,
  );
}

/** The client broke the connection off in the middle: nobody is left to answer and nothing is wrong here. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

/** The system's error code (`ENOENT`), or an empty string for errors that are not the system's. */
export function systemCode(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
}
