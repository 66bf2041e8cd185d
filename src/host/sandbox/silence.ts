/** Before a sandbox is written down that may have no connection open then: all are ended, and no packet comes in. */
import { Fault } from "../../contract/fault.ts";
import { GuestClient } from "../guest-link/guest-client.ts";
import { lastCall } from "../guest-link/last-call.ts";
import { LAST_CALL_ROUNDS, LAST_CALLS_AT_ONCE, SILENCE_RETRY_MS, SILENCE_TRIES_MAX } from "../limits.ts";
import type { Network } from "../network/network.ts";
import { isAlive, type SandboxRecord } from "./sandbox-record.ts";

/**
 * It lasts until somebody ends it. Fault 503 when others connect faster than they are cut off. What a guest has heard
 * in its life may come back after a restore as well, so another takes its place, which has heard nothing yet.
 */
export async function silence(network: Network, record: SandboxRecord): Promise<void> {
  const { slot } = record;
  const still = network.stillness(slot);
  const guest = new GuestClient(network.address(slot), record.controlSecret);
  await guest.replace(() => isAlive(record));
  for (let tries = 0; tries < SILENCE_TRIES_MAX; tries++) {
    await still.cut();
    for (let round = 0; round < LAST_CALL_ROUNDS; round++) {
      await Promise.all(Array.from({ length: LAST_CALLS_AT_ONCE }, () => lastCall(network.address(slot))));
    }
    await still.begin();
    if (!still.isConnected) return;
    await still.end();
    await Bun.sleep(SILENCE_RETRY_MS * 2 ** tries);
  }
  throw new Fault(503, "this sandbox gets new connections all the time and cannot be checkpointed; try again");
}
