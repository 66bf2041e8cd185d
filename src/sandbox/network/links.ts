/** Creates and removes the interfaces of sandboxes asynchronously, in order, on a separate thread. */
import { described, stderrLog } from "../../base/log.ts";
import { scaled } from "../../base/time-factor.ts";
import { JobThread } from "../../system/job-thread.ts";
import { canDestroyConnections } from "../../system/net/socket-destroy.ts";
import type { LinkJob } from "./plugging.ts";

/** Timeout for creating one interface or removing some, including the queue before them. */
const LINK_JOB_MS = scaled(30_000);

/** Interface group of links to be removed; each server of a machine has its own. */
const GROUP_FIRST = 0x5a_1d_07_00;

export class Links {
  readonly #group: number;
  readonly #thread = new JobThread<LinkJob>({
    program: new URL("./link-worker.ts", import.meta.url),
    what: "the network of a sandbox could not be made ready",
    withinMs: LINK_JOB_MS,
  });
  /** At most one entry for each slot. */
  #leaving: { name: string; done: PromiseWithResolvers<void> }[] = [];
  #isBusy = false;
  #canDisconnect: boolean | undefined;

  constructor(net: number) {
    this.#group = GROUP_FIRST + net;
  }

  /** Runs before any job that is requested later. */
  async do(job: Extract<LinkJob, { kind: "plug" | "settle" | "forget" }>): Promise<void> {
    await this.#thread.do(job);
  }

  /** Closes connections to a sandbox that is gone: their owners would wait for minutes. Never rejects. */
  async disconnect(address: string): Promise<void> {
    try {
      this.#canDisconnect ??= canDestroyConnections();
      if (this.#canDisconnect) await this.#thread.do({ kind: "disconnect", address });
    } catch (error) {
      const event = "connections to an ended sandbox could not be closed";
      stderrLog.write({ level: "warn", event, address, error: described(error) });
    }
  }

  /**
   * Resolves when the interface is gone. The kernel takes a while to remove one and blocks the creation of others
   * meanwhile. So removals that arrive during one are collected and run together.
   */
  async unplug(name: string): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#leaving.push({ name, done });
    if (!this.#isBusy) void this.#work();
    await done.promise;
  }

  /** The next job starts a new thread. */
  close(): void {
    this.#thread.close();
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#leaving.length > 0) {
      const together = this.#leaving;
      this.#leaving = [];
      try {
        const names = together.map(({ name }) => name);
        await this.#thread.do({ kind: "unplug", names, group: this.#group });
        for (const { done } of together) done.resolve();
      } catch (cause) {
        for (const { done } of together) done.reject(cause);
      }
    }
    this.#isBusy = false;
  }
}
