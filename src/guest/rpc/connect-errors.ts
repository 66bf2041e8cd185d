/** The one place where what a service threw becomes an error of the Connect protocol. */
import { Code, ConnectError } from "@connectrpc/connect";
import type { RpcCode } from "../system/rpc-fault.ts";
import { wireError } from "./wire-error.ts";

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

export function toConnectError(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const { code, message } = wireError(thrown);
  return new ConnectError(message, CODES[code], undefined, undefined, thrown);
}
