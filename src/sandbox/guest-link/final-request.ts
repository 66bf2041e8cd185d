/**
 * One more call to a guest, which the guest itself hangs up on. A program that waits for many connections at once, as
 * the guest does, may be told of the last one again after runsc has restored it, by a pointer to what is not there any
 * more, when it was the other end that closed that one (google/gvisor: interests in epoll that were deleted).
 */
import { connect } from "node:net";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";

/** How long a guest may take to hang up before it is written down, and how often that is tried where others call it. */
const FINAL_REQUEST_MS = scaled(10_000);

/** Resolves when the guest has hung up. Fault 503 when it does not in time. */
export function finalRequest(address: string, port = RUNTIME_PORT): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, allowHalfOpen: true });
    const give = (cause?: unknown) => {
      socket.destroy();
      reject(new Fault(503, "the guest did not answer before the checkpoint; try again", { cause }));
    };
    socket.setTimeout(FINAL_REQUEST_MS, give);
    socket.on("error", give);
    socket.on("connect", () => socket.write(`GET /health HTTP/1.1\r\nHost: ${address}\r\nConnection: close\r\n\r\n`));
    socket.on("data", () => undefined);
    socket.on("end", () => {
      socket.end();
      resolve();
    });
  });
}
