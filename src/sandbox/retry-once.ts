/**
 * Makes something a second time when the first time failed for a reason that may have passed: a process that the
 * machine ended in its need, a device that another server took in the same moment, a sandbox that ended while nobody
 * was looking.
 */

import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded } from "../system/overload.ts";
import { TRIES_MAX } from "./limits.ts";

export const RETRY_WITHIN_MS = scaled(25_000);

/**
 * `make` leaves nothing behind when it throws. A Fault that says what it is (no room, no such image, a wait that ran
 * out) is final: the caller can do more about it than another try. After a failure that took so long that the caller
 * may soon be gone there is none either; the machine has no time to spare, and Fault 503 says so.
 */
export async function retryOnce<Made>(
  make: () => Promise<Made>,
  failed: (reason: unknown) => void,
  now: () => number = () => performance.now(),
): Promise<Made> {
  const began = now();
  for (let tries = 1; ; tries++) {
    try {
      return await make();
    } catch (reason) {
      if (tries === TRIES_MAX || Fault.from(reason).status !== 500) throw reason;
      const tookMs = Math.round(now() - began);
      if (tookMs > RETRY_WITHIN_MS) throw overloaded(`the sandbox did not start, for ${tookMs} ms`, reason);
      failed(reason);
    }
  }
}
