/** Checkpoints that no row names any more. What a restart interrupts, the next start's adoption removes. */
import type { Host } from "../../host/host.ts";
import type { Background } from "../../work/background.ts";
import type { Clock } from "../../work/clock.ts";
import { described, type Log } from "../../work/log.ts";
import type { Lull } from "../../work/lull.ts";
import { RetryQueue } from "../../work/retry-queue.ts";
import {
  CHECKPOINT_REMOVAL_RETRY_MAX_MS,
  CHECKPOINT_REMOVAL_RETRY_MIN_MS,
  CHECKPOINT_REMOVALS_AT_ONCE,
} from "../limits.ts";

export type CheckpointRemoval = RetryQueue<string>;

export function createCheckpointRemoval(services: {
  host: Host;
  clock: Clock;
  log: Log;
  background: Background;
  /** While nobody waits for a sandbox. */
  lull: Lull;
}): CheckpointRemoval {
  const { host, clock, log, background, lull } = services;
  return new RetryQueue<string>({
    clock,
    background,
    async work(checkpoint) {
      await lull.come();
      await host.removeCheckpoint(checkpoint);
    },
    failed(checkpoint, error) {
      log.write({ level: "error", event: "checkpoint could not be removed", checkpoint, error: described(error) });
    },
    atOnce: CHECKPOINT_REMOVALS_AT_ONCE,
    retryMinMs: CHECKPOINT_REMOVAL_RETRY_MIN_MS,
    retryMaxMs: CHECKPOINT_REMOVAL_RETRY_MAX_MS,
  });
}
