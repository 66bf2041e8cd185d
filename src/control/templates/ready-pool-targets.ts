/**
 * Tells the host which sandboxes to keep in the ready pool: those of built-in templates, and of templates with a
 * number.
 */
import type { Timer } from "../../base/clock.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import type { KeptReady } from "../../contract/internal/host.ts";
import type { Parts } from "../parts.ts";
import type { BuiltinDefinition } from "./builtin-definition.ts";
import { kindsKeptReady, type SharedMemory } from "./shared-memory.ts";
import { sandboxKindOf } from "./template-lookup.ts";

/** Interval at which numbers set by the operator's commands are noticed. */
export const KEPT_READY_CHECK_MS = 5_000;

export class ReadyPoolTargets {
  /** Built-in templates that are built on demand; each has its own number. */
  readonly #defined: ReadonlySet<string>;
  readonly #turns = new SerialQueue();
  /** Set while a queued run has not read the store yet: it will see every change made meanwhile. */
  #isQueued = false;
  /** The last order that the host accepted. */
  #accepted: readonly KeptReady[] | undefined;
  #timer: Timer | undefined;

  constructor(
    private readonly services: Parts,
    /** Ready sandboxes of each built-in template. */
    private readonly builtinCount: number,
    definitions: readonly BuiltinDefinition[],
    private readonly sharedMemory: SharedMemory,
  ) {
    this.#defined = new Set(definitions.map(({ id }) => id));
  }

  /** From now on it also polls for numbers set by the operator's commands. */
  start(): void {
    this.changed();
    this.#timer = this.services.idleClock.after(KEPT_READY_CHECK_MS, () => this.start());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** Call it when a build becomes ready, or a template is deleted or gets another number. */
  changed(): void {
    if (this.#isQueued) return;
    this.#isQueued = true;
    this.services.background.run("the targets of the ready pool could not be sent to the host", () =>
      this.#turns.run(() => this.#send()),
    );
  }

  /**
   * A built-in template that is built on demand has its own number, unless the server's setting for built-ins is zero.
   */
  #countOf(templateId: string, own: number): number {
    return this.builtinCount > 0 && this.#defined.has(templateId) ? own : this.builtinCount;
  }

  async #send(): Promise<void> {
    this.#isQueued = false;
    const { store, host } = this.services;
    const kept: KeptReady[] = [];
    for (const { build, isBuiltIn, count } of await store.buildsInUse.keptReady()) {
      const wanted = isBuiltIn ? this.#countOf(build.templateId, count) : count;
      for (const kind of kindsKeptReady(sandboxKindOf(build), this.sharedMemory)) {
        kept.push({ kind, count: wanted, checkpoint: build.checkpoint });
      }
    }
    if (Bun.deepEquals(kept, this.#accepted)) return;
    // Cleared first, so that a failed call is repeated.
    this.#accepted = undefined;
    await host.keepReady(kept);
    this.#accepted = kept;
  }
}
