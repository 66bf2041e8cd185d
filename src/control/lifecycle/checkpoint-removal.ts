/** Checkpoints that no row names any more. What a restart interrupts, the next start's adoption removes. */

import type { Host } from "../../host/host.ts";
import type { Background } from "../../work/background.ts";
import type { Clock } from "../../work/clock.ts";
import { described, type Log } from "../../work/log.ts";
import { WorkLine } from "../../work/retry-queue.ts";
import { DISCARD_RETRY_MAX_MS, DISCARD_RETRY_MIN_MS, DISCARDS_AT_ONCE } from "../limits.ts";

export type Discards = WorkLine<string>;

export function createDiscards(rooms: { host: Host; clock: Clock; log: Log; background: Background }): Discards {
  const { host, clock, log, background } = rooms;
  return new WorkLine<string>({
    clock,
    background,
    work: (checkpoint) => host.removeCheckpoint(checkpoint),
    failed(checkpoint, error) {
      log.write({ level: "error", event: "checkpoint could not be removed", checkpoint, error: described(error) });
    },
    atOnce: DISCARDS_AT_ONCE,
    retryMinMs: DISCARD_RETRY_MIN_MS,
    retryMaxMs: DISCARD_RETRY_MAX_MS,
  });
}
