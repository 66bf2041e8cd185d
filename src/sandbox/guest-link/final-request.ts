/**
 * One last request to a guest, whose connection the guest itself closes. After a runsc restore, a program that waits
 * for many connections, as the guest does, may be notified again of the last one with a stale pointer, if the other end
 * closed that one (google/gvisor: deleted epoll interests).
 */
import { connect } from "node:net";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";

/** Timeout for the guest to close the connection before its checkpoint. */
const FINAL_REQUEST_MS = scaled(10_000);

/** Resolves when the guest has closed the connection. Throws Fault 503 on timeout. */
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
