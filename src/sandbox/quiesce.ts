/**
 * Prepares a sandbox for a checkpoint in which it may have no open connection: ends all connections and blocks incoming
 * packets.
 */
import { Fault } from "../contract/fault.ts";
import { finalRequest } from "./guest-link/final-request.ts";
import { GuestClient } from "./guest-link/guest-client.ts";
import type { Network } from "./network/network.ts";
import { isAlive, type SandboxRecord } from "./sandbox-record.ts";

/** More than one, because several pooled connections may have been cut at the same moment. */
const FINAL_REQUESTS_AT_ONCE = 8;
const FINAL_REQUEST_ROUNDS = 2;
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
