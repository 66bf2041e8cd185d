/** The one place where what a service threw becomes an error of the Connect protocol. */
import { Code, ConnectError } from "@connectrpc/connect";
import { Fault } from "../../contract/fault.ts";
import { logError } from "../system/log.ts";
import { isAbort, type RpcCode } from "../system/rpc-fault.ts";

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

function isRpcCode(code: string): code is RpcCode {
  return Object.hasOwn(CODES, code);
}

/** Whatever a service threw, as the error its caller sees. An error that nobody foresaw is logged and shown blank. */
export function toConnectError(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  if (isAbort(thrown)) return new ConnectError("the client went away", Code.Canceled);
  const fault = Fault.from(thrown);
  if (fault.errorCode !== undefined && isRpcCode(fault.errorCode)) {
    return new ConnectError(fault.message, CODES[fault.errorCode], undefined, undefined, fault.cause);
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
