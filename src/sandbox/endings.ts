/**
 * Ends sandboxes: one by id, or all that nothing claims after a restart. A sandbox has ended when no process of it is
 * left. If a process survives (it waits for a disk, or the kernel is still releasing its memory), the sandbox is cut
 * off and keeps its slot, disk and folder. The caller gets an error, and the server retries in the background until the
 * sandbox is gone.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Background } from "../base/background.ts";
import { systemClock } from "../base/clock.ts";
import { described, type Log, stderrLog } from "../base/log.ts";
import { RetryQueue } from "../base/retry-queue.ts";
import { Semaphore } from "../base/semaphore.ts";
import { Fault } from "../contract/fault.ts";
import { CGROUP_REMOVE_MS, endAll, endCgroup, ProcessesRemain, removeCgroups } from "../system/cgroup/removal.ts";
import { notedIds } from "./allocation.ts";
import { type CleanupParts, type Leftovers, removeResources } from "./cleanup.ts";
import { readRecord, type SandboxRecord } from "./sandbox-record.ts";

const UNENDED_RETRY_MIN_MS = 500;
const UNENDED_RETRY_MAX_MS = 30_000;
const UNENDED_AT_ONCE = 8;
/** How many leftover sandboxes of a killed server are removed concurrently. */
export const REAPS_AT_ONCE = 8;
/** How long one ending may hold its permit. An ending usually takes a tenth of a second. */
const ENDING_PLACE_MS = 2_000;

export class Endings {
  readonly #background: Background;
  /** Sandboxes that do not end, by id. Each holds one of a limited number of slots. */
  readonly #stillRunning = new Map<string, Leftovers & { since: number }>();
  readonly #retries: RetryQueue<Leftovers>;
  readonly #permits = new Semaphore(REAPS_AT_ONCE);

  constructor(
    private readonly parts: CleanupParts,
    readonly withinMs = CGROUP_REMOVE_MS,
    private readonly log: Log = stderrLog,
  ) {
    this.#background = new Background(log);
    this.#retries = new RetryQueue<Leftovers>({
      clock: systemClock,
      background: this.#background,
      work: (leftovers) => this.#tryAgain(leftovers),
      // The failure was logged when the sandbox was noted.
      failed: () => undefined,
      atOnce: UNENDED_AT_ONCE,
      retryMinMs: UNENDED_RETRY_MIN_MS,
      retryMaxMs: UNENDED_RETRY_MAX_MS,
    });
  }

  /** Throws Fault 503 when a process survives; the server then retries without the caller. */
  async end(leftovers: Leftovers): Promise<void> {
    const { id } = leftovers;
    if (this.#stillRunning.has(id)) throw runsOn(id);
    try {
      await removeResources(this.parts, leftovers, this.withinMs);
    } catch (cause) {
      if (!(cause instanceof ProcessesRemain)) throw cause;
      this.#note(leftovers, cause);
      throw runsOn(id, cause);
    }
  }

  /** Ends the processes of a sandbox. Never throws: the caller continues with `end`, which reports a survivor. */
  async endProcesses(id: string): Promise<void> {
    await endCgroup(`${this.parts.data.cgroup}/${id}`, this.withinMs).catch(() => undefined);
  }

  /**
   * Ends a sandbox by id, from its record on disk. Only a few endings run concurrently, because each takes many slices
   * of the server's event loop and would delay other requests. A slow ending gives up its place, so it does not block
   * the next ones.
   */
  async endById(id: string): Promise<void> {
    using place = new DisposableStack();
    place.use(await this.#permits.acquire());
    const late = setTimeout(() => place.dispose(), ENDING_PLACE_MS);
    await this.end(this.#leftoversOf(id)).finally(() => clearTimeout(late));
  }

  /**
   * Removes everything that carries this server's name and belongs to no sandbox in `keep`. All are signalled first
   * and awaited together. A sandbox that does not end never makes this fail.
   */
  async reap(keep: ReadonlyMap<string, SandboxRecord>): Promise<void> {
    const { data, runtimes, network, disks } = this.parts;
    const traces = new Set([...(await runtimes.list()), ...(await readdir(data.sandboxesFolder))]);
    const over = [...traces].filter((id) => !keep.has(id));
    const unended = new Set(
      await endAll(
        over.map((id) => `${data.cgroup}/${id}`),
        this.withinMs,
      ),
    );
    const permits = new Semaphore(REAPS_AT_ONCE);
    await Promise.all(
      over.map(async (id) => {
        using _permit = await permits.acquire();
        const leftovers = this.#leftoversOf(id);
        const waitMs = unended.has(`${data.cgroup}/${id}`) ? 0 : this.withinMs;
        await removeResources(this.parts, leftovers, waitMs).catch((cause: unknown) => {
          // A sandbox whose first process has ended was not found running, so its slot would count as free.
          if (leftovers.slot !== undefined) network.adopt(leftovers.slot, "open");
          this.#note(leftovers, cause);
        });
      }),
    );
    const kept = [...keep.values(), ...this.#stillRunning.values()];
    const keptDisks = new Set(kept.map(({ disk }) => disk));
    for (const name of await disks.list()) if (!keptDisks.has(name)) await disks.remove(name);
    await removeCgroups(data.cgroup, new Set(kept.map(({ id }) => id)), this.withinMs).catch((error: unknown) => {
      const event = "tools of an earlier server do not end";
      this.log.write({ level: "error", event, ...detailsOf(error) });
    });
    await network.removeInterfaces(new Set([...keep.values()].map(({ slot }) => slot)));
  }

  /** Sandboxes that have not ended are left to the next server start. */
  async close(): Promise<void> {
    this.#retries.close();
    await this.#background.settled();
  }

  #leftoversOf(id: string): Leftovers {
    const folder = join(this.parts.data.sandboxesFolder, id);
    const firstId = notedIds(folder);
    return readRecord(folder) ?? (firstId === undefined ? { id } : { id, firstId });
  }

  #note(leftovers: Leftovers, cause: unknown): void {
    const { id } = leftovers;
    this.#stillRunning.set(id, { ...leftovers, since: performance.now() });
    const event = "a sandbox does not end; it is cut off from the network and keeps its resources until it is gone";
    this.log.write({ level: "error", event, sandbox: id, ...detailsOf(cause) });
    this.#retries.enqueue([leftovers]);
  }

  async #tryAgain(leftovers: Leftovers): Promise<void> {
    const { id } = leftovers;
    const since = this.#stillRunning.get(id)?.since ?? 0;
    await removeResources(this.parts, leftovers, 0, () => this.#stillRunning.delete(id));
    const seconds = Math.round((performance.now() - since) / 1000);
    this.log.write({ level: "info", event: "a sandbox that did not end is gone", sandbox: id, seconds });
  }
}

function runsOn(id: string, cause?: unknown): Fault {
  const message =
    `sandbox ${id} was killed, but a process in it has not ended yet. ` +
    "It is cut off from the network; the server removes it as soon as the kernel releases it";
  return new Fault(503, message, { cause });
}

function detailsOf(error: unknown): { processes?: string; error: string } {
  return error instanceof ProcessesRemain
    ? { processes: error.processes, error: error.message }
    : { error: described(error) };
}
