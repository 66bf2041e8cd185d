/**
 * Reacts to a machine that is short of memory: rejects new runs, and pauses idle sandboxes with autoPause, the longest
 * idle first, until the host has enough memory again. A sandbox without autoPause is never paused.
 */
import { Fault } from "../../contract/fault.ts";
import type { MemoryEvent } from "../../contract/internal/host.ts";
import { MIB } from "../../contract/limit.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { LifecycleCore } from "./lifecycle-core.ts";
import { statusOf } from "./sandbox-status.ts";

/** Concurrent pauses; the next ones follow if memory is still short then. */
export const RELIEF_PAUSES_AT_ONCE = 4;
/** How long until idle sandboxes are looked for again when there were none, or until a failed pause is retried. */
export const RELIEF_AGAIN_MS = 5_000;
const RELIEF_RETRY_MS = 300_000;

const NOTE = "the machine was short of memory";

interface MemoryReliefParts {
  core: Pick<LifecycleCore, "store" | "clock" | "log" | "listener" | "background">;
  /** Those of these sandboxes that are idle, the longest idle first. */
  idle(ids: readonly string[]): Promise<string[]>;
  /** Pauses the sandbox with its memory. False: it no longer runs. */
  pause(sandbox: Sandbox, note: string): Promise<boolean>;
}

export class MemoryRelief {
  /** While the machine is short of memory. */
  #short: MemoryEvent | undefined;
  #isUnderWay = false;
  #nextAt = 0;
  /** Sandboxes that could not be paused, and when to try again. */
  readonly #failed = new Map<string, number>();
  #isClosed = false;

  constructor(private readonly parts: MemoryReliefParts) {}

  /** Never waits. */
  onHostEvent(event: MemoryEvent): void {
    this.#short = event.state === "enough" ? undefined : event;
    const { clock, background } = this.parts.core;
    if (event.state !== "exhausted" || this.#isUnderWay || this.#isClosed || clock.now() < this.#nextAt) return;
    this.#isUnderWay = true;
    background.run("memory could not be freed", () =>
      this.#pauseSome().finally(() => {
        this.#isUnderWay = false;
      }),
    );
  }

  /** Fault 503 while the machine is short of memory. */
  requireEnough(): void {
    if (this.#short === undefined) return;
    const { availableBytes, reserveBytes } = this.#short;
    const message =
      `Failed to place sandbox: the machine is short of memory: ${Math.floor(availableBytes / MIB)} MB are available, ` +
      `less than the reserve of ${Math.floor(reserveBytes / MIB)} MB (SANDLOT_MEMORY_RESERVE); kill or pause some ` +
      "sandboxes, or try again later";
    throw new Fault(503, message, { errorCode: "sandbox_capacity_unavailable" });
  }

  close(): void {
    this.#isClosed = true;
  }

  async #pauseSome(): Promise<void> {
    const { clock } = this.parts.core;
    // Until the candidates are known, and again if a failure comes before.
    this.#nextAt = clock.now() + RELIEF_AGAIN_MS;
    const chosen = await this.#candidates();
    if (chosen.length > 0) this.#nextAt = 0;
    await Promise.all(chosen.map((sandbox) => this.#pause(sandbox)));
  }

  async #candidates(): Promise<Sandbox[]> {
    const { store, clock } = this.parts.core;
    const now = clock.now();
    for (const [id, until] of this.#failed) if (until <= now) this.#failed.delete(id);
    const willing = await store.sandboxes.withAutoPause(now);
    const chosen: Sandbox[] = [];
    for (const id of await this.parts.idle(willing.filter((each) => !this.#failed.has(each)))) {
      if (chosen.length === RELIEF_PAUSES_AT_ONCE) break;
      const sandbox = await store.sandboxes.byId(id);
      if (sandbox?.autoPause && statusOf(sandbox, clock.now()) === "running") chosen.push(sandbox);
    }
    return chosen;
  }

  async #pause(sandbox: Sandbox): Promise<void> {
    const { log, listener, clock } = this.parts.core;
    const { id } = sandbox;
    try {
      if (!(await this.parts.pause(sandbox, NOTE))) return;
      log.write({ level: "warn", event: "sandbox paused to free memory", sandbox: id });
    } catch (thrown) {
      const { message } = Fault.from(thrown);
      this.#failed.set(id, clock.now() + RELIEF_RETRY_MS);
      log.write({ level: "warn", event: "sandbox could not be paused to free memory", sandbox: id, error: message });
      listener.warn(sandbox, `${NOTE}, but the sandbox could not be paused: ${message}`);
    }
  }
}
