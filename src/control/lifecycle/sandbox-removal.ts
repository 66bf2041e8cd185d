/**
 * The last step of every sandbox: destroy it and its checkpoint, then forget its row. Who calls this has won the row's
 * change to `killing`. A failure leaves the row in `killing`, where nobody can reach the sandbox, and is tried again
 * until it succeeds; what a restart interrupts is finished at the next start.
 */

import type { Host } from "../../host/host.ts";
import type { EndedRun } from "../../store/sandboxes.ts";
import type { Store } from "../../store/store.ts";
import type { Background } from "../../work/background.ts";
import type { Clock } from "../../work/clock.ts";
import { described, type Log } from "../../work/log.ts";
import { RetryQueue } from "../../work/retry-queue.ts";
import { REMOVAL_RETRY_MAX_MS, REMOVAL_RETRY_MIN_MS, REMOVALS_AT_ONCE } from "../limits.ts";
import type { Changes } from "./changes.ts";

export type SandboxRemoval = RetryQueue<EndedRun>;

export function createSandboxRemoval(services: {
  store: Store;
  host: Host;
  clock: Clock;
  log: Log;
  background: Background;
  changes: Changes;
}): SandboxRemoval {
  const { store, host, clock, log, background, changes } = services;
  return new RetryQueue<EndedRun>({
    clock,
    background,
    async work(run) {
      await host.destroy(run.id);
      if (run.checkpoint !== null) await host.removeCheckpoint(run.checkpoint);
      await store.sandboxes.remove(run);
      changes.note(run.id);
      log.write({ level: "info", event: "sandbox ended", sandbox: run.id });
    },
    failed({ id }, error) {
      log.write({ level: "error", event: "sandbox could not be destroyed", sandbox: id, error: described(error) });
    },
    atOnce: REMOVALS_AT_ONCE,
    retryMinMs: REMOVAL_RETRY_MIN_MS,
    retryMaxMs: REMOVAL_RETRY_MAX_MS,
  });
}
