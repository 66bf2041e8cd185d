/** Ends all connections of a sandbox and blocks packets to it, for runtimes whose checkpoints need that. */
import { connect } from "node:net";
import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { GuestClient } from "./guest-link/guest-client.ts";
import type { Network } from "./network/network.ts";
import { isAlive, type SandboxRecord } from "./sandbox-record.ts";

/** More than one, because several pooled connections may have been cut at the same moment. */
const FINAL_REQUESTS_AT_ONCE = 8;
const FINAL_REQUEST_ROUNDS = 2;
const FINAL_REQUEST_MS = scaled(10_000);
const QUIESCE_TRIES_MAX = 6;
const QUIESCE_RETRY_MS = 10;

/**
 * The quiesce lasts until the caller ends it. Throws Fault 503 when clients connect faster than they are cut off. The
 * guest is replaced by a new process: a restore may replay what the old one received.
 */
export async function quiesce(network: Network, record: SandboxRecord): Promise<void> {
  const { slot } = record;
  const quiet = network.quiesce(slot);
  const guest = new GuestClient(network.address(slot), record.controlSecret);
  await guest.replace(() => isAlive(record));
  for (let tries = 0; tries < QUIESCE_TRIES_MAX; tries++) {
    await quiet.cut();
    for (let round = 0; round < FINAL_REQUEST_ROUNDS; round++) {
      await Promise.all(Array.from({ length: FINAL_REQUESTS_AT_ONCE }, () => finalRequest(network.address(slot))));
    }
    await quiet.begin();
    if (!quiet.isConnected) return;
    await quiet.end();
    await Bun.sleep(QUIESCE_RETRY_MS * 2 ** tries);
  }
  throw new Fault(503, "this sandbox gets new connections all the time and cannot be checkpointed; try again");
}

/**
 * One last request to a guest. Resolves when the guest itself has closed the connection. After a runsc restore, a
 * program that waits for many connections, as the guest does, may be notified again of the last one with a stale
 * pointer, if the other end closed that one (google/gvisor: deleted epoll interests).
 */
function finalRequest(host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: RUNTIME_PORT, allowHalfOpen: true });
    const give = (cause?: unknown) => {
      socket.destroy();
      reject(new Fault(503, "the guest did not answer before the checkpoint; try again", { cause }));
    };
    socket.setTimeout(FINAL_REQUEST_MS, give);
    socket.on("error", give);
    socket.on("connect", () => socket.write(`GET /health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`));
    socket.on("data", () => undefined);
    socket.on("end", () => {
      socket.end();
      resolve();
    });
  });
}
