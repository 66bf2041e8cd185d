/** The only place where a service's error becomes a Connect error. */
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { Fault } from "../../contract/fault.ts";
import { requestIdIn } from "../../contract/request-id.ts";
import { logError } from "../system/log.ts";
import { isAbort } from "../system/rpc-fault.ts";

/** Details of an unexpected error go to the log, not to the caller. */
export function toConnectError(thrown: unknown, headers: Headers): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const toError = (message: string, code: Code) => new ConnectError(message, code, undefined, undefined, thrown);
  if (isAbort(thrown)) return toError("the client went away", Code.Canceled);
  const { errorCode = "", message } = Fault.from(thrown);
  const code = codeFromString(errorCode);
  if (code !== undefined) return toError(message, code);
  logError("a call failed for an unforeseen reason", thrown, { request: requestIdIn(headers) });
  return toError("internal error; the guest's log has the details", Code.Internal);
}
