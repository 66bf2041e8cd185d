/**
 * Retries once after a failure whose cause may have passed: a process killed for lack of memory, a device taken by
 * another server at the same moment, a sandbox that ended unnoticed.
 */

import { scaled } from "../base/time-factor.ts";
import { Fault } from "../contract/fault.ts";
import { overloaded } from "../system/overload.ts";
import { TRIES_MAX } from "./limits.ts";

export const RETRY_WITHIN_MS = scaled(25_000);

/**
 * `make` must leave nothing behind when it throws. A Fault with a specific status (no room, no such image, a timeout)
 * is final: the caller can act on it better than a retry can. There is no retry either after a failure so slow that the
 * caller may soon give up; Fault 503 then reports an overloaded machine.
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
