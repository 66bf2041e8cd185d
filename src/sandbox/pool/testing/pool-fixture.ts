/** A ready pool on a fake machine: the test ends each start and moves the clock. */
import type { LogEntry } from "../../../base/log.ts";
import { ManualClock } from "../../../base/testing/manual-clock.ts";
import type { SandboxKind } from "../../../contract/internal/host.ts";
import { BASE_TEMPLATE } from "../../../contract/management/base-template.ts";
import type { PoolReport } from "../pool-report.ts";
import { READY_CHECK_MS, ReadyPool, type ReadyPoolParts } from "../ready-pool.ts";
import type { Room } from "../shares.ts";
import type { StartSpec } from "../template-pool.ts";

export const MIB = 1024 ** 2;

/** A booted kind that tests keep and request. */
export const KIND: SandboxKind = { ...BASE_TEMPLATE, templateId: BASE_TEMPLATE.id, image: "base" };
export const PLAIN: StartSpec = { kind: KIND, checkpoint: null };

export class PoolFixture {
  readonly clock = new ManualClock(1_000_000);
  /** The sandboxes on the fake machine. */
  readonly machine = new Map<string, "runs" | "frozen">();
  /** Starts in progress. */
  readonly starts: (StartSpec & { done: PromiseWithResolvers<string> })[] = [];
  readonly entries: LogEntry[] = [];
  report: PoolReport = { templates: [], hits: 0, joined: 0, misses: 0 };
  room: Room = { places: 100, bytes: 1000 * MIB };
  #made = 0;

  /** Each sandbox takes 10 MiB. */
  open(other: Partial<ReadyPoolParts> = {}): ReadyPool {
    const { clock, machine, starts, entries } = this;
    return new ReadyPool({
      startAhead(wanted) {
        const done = Promise.withResolvers<string>();
        starts.push({ ...wanted, done });
        return done.promise;
      },
      stop: async (id) => void machine.set(id, "frozen"),
      thaw(id) {
        if (!machine.has(id)) return false;
        machine.set(id, "runs");
        return true;
      },
      discard: async (id) => void machine.delete(id),
      bytesOf: () => 10 * MIB,
      followsDemand: true,
      room: () => this.room,
      isBusyNow: () => false,
      processors: 2,
      clock,
      log: { write: (entry) => void entries.push(entry) },
      report: (now) => {
        this.report = now;
      },
      ...other,
    });
  }

  /** Resolves when all work that needs neither a finished start nor a clock tick is done. */
  settled(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  async pass(ms: number): Promise<void> {
    await this.settled();
    await this.clock.advance(ms, () => this.settled());
  }

  /** Ends the oldest start in progress. */
  async endStart(): Promise<string> {
    const next = this.starts.shift();
    if (next === undefined) throw new Error("none is under way");
    const id = `${next.checkpoint ?? "booted"} ${++this.#made}`;
    this.machine.set(id, "runs");
    next.done.resolve(id);
    await this.settled();
    return id;
  }

  /** Ends all starts and advances the clock until no new one begins. */
  async filled(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet++) {
      for (; this.starts.length > 0; quiet = 0) await this.endStart();
      await this.pass(READY_CHECK_MS);
    }
  }

  async close(pool: ReadyPool): Promise<void> {
    const closed = pool.close();
    for (const { done } of this.starts.splice(0)) done.reject(new Error("the test is over"));
    await closed;
  }
}
