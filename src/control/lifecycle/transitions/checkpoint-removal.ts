/**
 * Removes checkpoints that no row names any more. If a restart interrupts that, adoption at the next start removes
 * them.
 */

import type { Background } from "../../../base/background.ts";
import type { Clock } from "../../../base/clock.ts";
import { described, type Log } from "../../../base/log.ts";
import type { QuietPeriod } from "../../../base/quiet-period.ts";
import { RetryQueue } from "../../../base/retry-queue.ts";
import type { Host } from "../../../contract/internal/host.ts";

/** A failed removal of a checkpoint is retried after the first delay, doubling up to the second. */
const CHECKPOINT_REMOVAL_RETRY_MIN_MS = 1_000;
const CHECKPOINT_REMOVAL_RETRY_MAX_MS = 60_000;
const CHECKPOINT_REMOVALS_AT_ONCE = 4;

export type CheckpointRemoval = RetryQueue<string>;

export function createCheckpointRemoval(services: {
  host: Host;
  clock: Clock;
  log: Log;
  background: Background;
  /** Idle time: no caller is waiting for a resume. */
  quietPeriod: QuietPeriod;
}): CheckpointRemoval {
  const { host, clock, log, background, quietPeriod } = services;
  return new RetryQueue<string>({
    clock,
    background,
    async work(checkpoint) {
      await quietPeriod.come();
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
