/** Whatever a service threw, as its caller sees it. Nothing of the protocol's library is needed for it. */
import { Fault } from "../../contract/fault.ts";
import { logError } from "../system/log.ts";
import { boundedMessage } from "../system/quote.ts";
import { isAbort, isRpcCode, type RpcCode } from "../system/rpc-fault.ts";
import { endOfStream } from "./envelopes.ts";

interface WireError {
  code: RpcCode;
  message: string;
}

/** An error that nobody foresaw is logged and shown blank. */
export function wireError(thrown: unknown): WireError {
  if (isAbort(thrown)) return { code: "canceled", message: "the client went away" };
  const { errorCode, message } = Fault.from(thrown);
  if (errorCode !== undefined && isRpcCode(errorCode)) return { code: errorCode, message };
  logError("a call failed for an unforeseen reason", thrown);
  return { code: "internal", message: "internal error; the guest's log has the details" };
}

/** The end of a stream in JSON that failed. */
export function failedEnd(thrown: unknown): Uint8Array<ArrayBuffer> {
  const { code, message } = wireError(thrown);
  return endOfStream(JSON.stringify({ error: { code, message: boundedMessage(message) } }));
}
