/** The only place where a service's error becomes a Connect error. */
import { Code, ConnectError } from "@connectrpc/connect";
import { Fault } from "../../contract/fault.ts";
import { logError } from "../system/log.ts";
import { isAbort, isRpcCode, type RpcCode } from "../system/rpc-fault.ts";

const CODES: Record<RpcCode, Code> = {
  canceled: Code.Canceled,
  unknown: Code.Unknown,
  invalid_argument: Code.InvalidArgument,
  deadline_exceeded: Code.DeadlineExceeded,
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  resource_exhausted: Code.ResourceExhausted,
  failed_precondition: Code.FailedPrecondition,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
  unauthenticated: Code.Unauthenticated,
};

/** Details of an unexpected error go to the log, not to the caller. */
export function toConnectError(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const told = (message: string, code: RpcCode) => new ConnectError(message, CODES[code], undefined, undefined, thrown);
  if (isAbort(thrown)) return told("the client went away", "canceled");
  const { errorCode, message } = Fault.from(thrown);
  if (errorCode !== undefined && isRpcCode(errorCode)) return told(message, errorCode);
  logError("a call failed for an unforeseen reason", thrown);
  return told("internal error; the guest's log has the details", "internal");
}
