/**
 * The last step of every sandbox: destroy it, then forget its row. Who calls this has won the row's change to `killing`.
 * A failure leaves the row in `killing`, where nobody can reach the sandbox, and is tried again until it succeeds; what a
 * restart interrupts is finished at the next start.
 */
import { TAKEDOWN_RETRY_MAX_MS, TAKEDOWN_RETRY_MIN_MS, TAKEDOWNS_AT_ONCE } from "../contract/limits.ts";
import type { Host } from "../host/host.ts";
import type { SandboxRun } from "../store/sandboxes.ts";
import type { Store } from "../store/store.ts";
import type { Background } from "./background.ts";
import type { Clock, Timer } from "./clock.ts";
import { described, type Log } from "./log.ts";

export interface Takedown {
  /** Does it now. When it throws, it has been put in line for another try. */
  finish(run: SandboxRun): Promise<void>;
  /** Does it soon, a few at a time. */
  enqueue(runs: readonly SandboxRun[]): void;
  close(): void;
}

export function createTakedown(rooms: {
  store: Store;
  host: Host;
  clock: Clock;
  log: Log;
  background: Background;
}): Takedown {
  const { store, host, clock, log, background } = rooms;
  /** Never longer than there are rows in `killing`. */
  const line: { run: SandboxRun; retryMs: number }[] = [];
  const retries = new Set<Timer>();
  let workers = 0;
  let closed = false;

  async function destroyAndForget(run: SandboxRun): Promise<void> {
    await host.destroy(run.id);
    await store.sandboxes.remove(run);
    log.write({ level: "info", event: "sandbox ended", sandbox: run.id });
  }

  function retryLater(run: SandboxRun, delayMs: number, error: unknown): void {
    log.write({ level: "error", event: "sandbox could not be destroyed", sandbox: run.id, error: described(error) });
    if (closed) return;
    const timer = clock.after(delayMs, () => {
      retries.delete(timer);
      line.push({ run, retryMs: Math.min(delayMs * 2, TAKEDOWN_RETRY_MAX_MS) });
      startWorkers();
    });
    retries.add(timer);
  }

  function startWorkers(): void {
    while (workers < TAKEDOWNS_AT_ONCE) {
      const first = line.shift();
      if (first === undefined) return;
      workers++;
      background.run("takedown failed", () => work(first));
    }
  }

  async function work(first: { run: SandboxRun; retryMs: number }): Promise<void> {
    try {
      for (let next: typeof first | undefined = first; next !== undefined && !closed; next = line.shift()) {
        const { run, retryMs } = next;
        await destroyAndForget(run).catch((error: unknown) => retryLater(run, retryMs, error));
      }
    } finally {
      workers--;
    }
  }

  return {
    async finish(run) {
      try {
        await destroyAndForget(run);
      } catch (error) {
        retryLater(run, TAKEDOWN_RETRY_MIN_MS, error);
        throw error;
      }
    },
    enqueue(runs) {
      line.push(...runs.map((run) => ({ run, retryMs: TAKEDOWN_RETRY_MIN_MS })));
      startWorkers();
    },
    close() {
      closed = true;
      line.length = 0;
      for (const timer of retries) timer.cancel();
      retries.clear();
    },
  };
}
