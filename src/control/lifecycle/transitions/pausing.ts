/**
 * Pauses sandboxes. A client's pause runs at once and reports its failure. A pause at the end of a timeout is queued;
 * when it fails it is postponed a few times before the memory is given up. After a failure the sandbox keeps running.
 */
import { described } from "../../../base/log.ts";
import { Fault } from "../../../contract/fault.ts";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { captureFault } from "../host-fault.ts";
import type { LifecycleCore } from "../lifecycle-core.ts";
import { notFound } from "../sandbox-status.ts";

/** Concurrent automatic pauses. */
export const AUTO_PAUSES_AT_ONCE = 4;
/** Delay before a failed automatic pause is retried. */
const AUTO_PAUSE_PUT_OFF_MS = 300_000;

export class Pausing {
  /** Queued rows in `pausing`. */
  readonly #queue: Sandbox[] = [];
  /** Checkpoint names of all automatic pauses, queued or running. */
  readonly #inHand = new Set<string | null>();
  #workers = 0;

  constructor(private readonly core: LifecycleCore) {}

  /** False: it no longer runs, so look again. Throws when it cannot be paused; it then keeps running. */
  async now(sandbox: Sandbox, memory: boolean, reason?: string): Promise<boolean> {
    const { store, host, clock, ids } = this.core;
    const to = { checkpoint: ids.uuid(), memory, now: clock.now() };
    const begin = () => store.sandboxes.beginPause(sandbox, to);
    const begun = await this.core.begin(sandbox.id, begin, { state: "pausing", checkpoint: to.checkpoint });
    if (begun === undefined) return false;
    this.core.reachability.hide(begun.id);
    try {
      await host.pause(begun.id, to.checkpoint, { memory, owner: begun.teamId });
    } catch (cause) {
      await this.core.takeBack(begun);
      throw captureFault(cause, begun.id);
    }
    const note = memory ? reason : "memory was not kept, as asked";
    if (!(await this.#done(begun, note))) throw notFound(begun.id);
    return true;
  }

  /** Queues automatic pauses. The rows are already in `pausing`; those already queued are skipped. */
  enqueue(due: readonly Sandbox[]): void {
    const fresh = due.filter(({ checkpoint }) => !this.#inHand.has(checkpoint));
    for (const { checkpoint } of fresh) this.#inHand.add(checkpoint);
    this.#queue.push(...fresh);
    while (this.#workers < AUTO_PAUSES_AT_ONCE && this.#queue.length > 0) {
      this.#workers++;
      this.core.background.run("automatic pause failed", () => this.#work());
    }
  }

  /** Moves this sandbox to the front of the queue, because a caller waits for it. */
  prioritise(id: string): void {
    const at = this.#queue.findIndex((sandbox) => sandbox.id === id);
    if (at > 0) this.#queue.unshift(...this.#queue.splice(at, 1));
  }

  close(): void {
    this.#queue.length = 0;
  }

  async #work(): Promise<void> {
    try {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        const sandbox = next;
        await this.#whenDue(sandbox).catch((error: unknown) => {
          const event = "automatic pause failed";
          this.core.log.write({ level: "error", event, sandbox: sandbox.id, error: described(error) });
        });
        this.#inHand.delete(sandbox.checkpoint);
      }
    } finally {
      this.#workers--;
    }
  }

  async #whenDue(sandbox: Sandbox): Promise<void> {
    const { store, host } = this.core;
    const { id, checkpointMemory: memory } = sandbox;
    // It may have waited long, and a client may have killed it meanwhile.
    const current = await this.core.untilRecorded("an automatic pause", () => store.sandboxes.byId(id));
    if (current?.killWanted) {
      return await this.core.takeBack(sandbox);
    }
    try {
      await host.pause(id, sandbox.checkpoint ?? "", { memory, owner: sandbox.teamId });
    } catch (cause) {
      return await this.#postpone(sandbox, cause);
    }
    const givenUp = sandbox.autoPauseMemory && !memory;
    await this.#done(sandbox, givenUp ? "memory was not kept: writing it failed several times" : undefined);
  }

  async #postpone(sandbox: Sandbox, cause: unknown): Promise<void> {
    const { store, reachability, clock, log, listener } = this.core;
    const back = await this.core.untilChanged("a pause that failed", sandbox, (run) =>
      store.sandboxes.putOffPause(run, clock.now() + AUTO_PAUSE_PUT_OFF_MS),
    );
    const event = "sandbox could not be paused at the end of its timeout";
    log.write({ level: "warn", event, sandbox: sandbox.id, error: described(cause) });
    if (back === undefined) return;
    if (back.state === "running" && reachability.isUp(back.id)) {
      const { message } = captureFault(cause, sandbox.id);
      const note = `the pause at the end of its timeout was postponed by ${AUTO_PAUSE_PUT_OFF_MS / 60_000} minutes: ${message}`;
      listener.warn(back, note);
      listener.onEvent("updated", back, note);
    }
    await this.core.finishReturnToRunning(back);
  }

  /** False: a kill was requested meanwhile, and the sandbox is ended now. */
  async #done(sandbox: Sandbox, note: string | undefined): Promise<boolean> {
    const { store, reachability, changes, listener, log } = this.core;
    const paused = await this.core.untilChanged("a pause", sandbox, store.sandboxes.finishPause);
    if (paused === undefined) return this.#wasPaused(sandbox);
    if (paused.state === "killing") {
      this.core.endSoon(paused, "killed");
      return false;
    }
    reachability.end(paused.id);
    changes.note(paused.id);
    log.write({ level: "info", event: "sandbox paused", sandbox: paused.id, memory: paused.checkpointMemory });
    listener.onEvent("paused", paused, note);
    return true;
  }

  /** As `#done`, after a failure of the store: another call may have resumed or ended the sandbox since. */
  async #wasPaused({ id, executionId }: Sandbox): Promise<boolean> {
    const row = await this.core.untilRecorded("a pause", () => this.core.store.sandboxes.byId(id));
    if (row?.executionId === executionId) throw new Fault(500, `sandbox "${id}" left "pausing" while it was paused`);
    return row !== undefined;
  }
}
