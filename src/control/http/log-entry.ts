/** Level and error of a request in the log. */
import { described } from "../../base/log.ts";
import { Fault } from "../../contract/fault.ts";
import { CLIENT_CLOSED_REQUEST } from "./request-body.ts";

/** Not failures of the server: the feature is not built; the server is busy; the disk or a quota is full. */
const [NOT_BUILT, BUSY, NO_ROOM] = [501, 503, 507];

export function levelOf(status: number): "info" | "warn" | "error" {
  if (status === BUSY || status === NO_ROOM) return "warn";
  return status >= 500 && status !== NOT_BUILT ? "error" : "info";
}

/** The server rejected deliberately: the fault has no other error as its cause. */
function isRefusal({ cause }: Fault): boolean {
  return cause === undefined || (cause instanceof Fault && isRefusal(cause));
}

/** The error in a log line: with all causes for a failure of the server, the message alone for a refusal. */
export function reasonFor(fault: Fault): string | undefined {
  if ((fault.status === BUSY && isRefusal(fault)) || fault.status === NOT_BUILT || fault.status === NO_ROOM)
    return fault.message;
  if (fault.status >= 500) return described(fault);
  return fault.status === CLIENT_CLOSED_REQUEST ? fault.message : undefined;
}
