/**
 * Provides kernels for contexts: a spare one at once, or a new one. Spares start in advance and are part of the
 * template's snapshot. Used spares are replaced while no code runs, so that clients do not wait for them.
 */
import type { Kernel, Language } from "./kernel.ts";
import { logFailure } from "./log.ts";
import type { SandboxFacts } from "./sandbox-facts.ts";

/** A used spare is replaced when no code has run for this long. */
const SPARE_REFILL_IDLE_MS = 1_000;
/** A used spare is replaced after this time at the latest, even if code always runs. */
const SPARE_REFILL_MAX_MS = 20_000;

/** Initial working folder of all kernels. */
export const HOME_FOLDER = "/home/user";

export class Kernels {
  readonly #spares = new Map<Language, Kernel[]>();
  /** Spares that are starting, until they are kept or taken. */
  readonly #coming = new Map<Language, Promise<Kernel>>();
  /** The sandbox identity with which a kernel was last seeded. */
  readonly #seededAs = new WeakMap<Kernel, string>();
  #running = 0;
  #lastRun = 0;
  #refilling: Promise<void> | undefined;

  /** `counts`: the number of spares per language. */
  constructor(
    private readonly counts: ReadonlyMap<Language, number>,
    readonly facts: SandboxFacts,
  ) {}

  async take(language: Language): Promise<Kernel> {
    const spare = this.#spares.get(language)?.shift() ?? (await this.#takeComing(language));
    // Spares wait meanwhile: they would compete for the processor.
    if (spare === undefined) return await this.whileRunning(() => this.#start(language));
    this.#lastRun = performance.now();
    void this.refill(SPARE_REFILL_IDLE_MS);
    return spare;
  }

  /** A starting spare is ready sooner than a new kernel and does not compete with one for the processor. */
  async #takeComing(language: Language): Promise<Kernel | undefined> {
    const coming = this.#coming.get(language);
    this.#coming.delete(language);
    return await coming?.catch(() => undefined);
  }

  /** Call this before code runs in a kernel. True: it is a copy from another sandbox and was reseeded. */
  async settle(kernel: Kernel): Promise<boolean> {
    const current = this.facts.identity();
    if (this.#seededAs.get(kernel) === current) return false;
    await kernel.reseed();
    this.#seededAs.set(kernel, current);
    return true;
  }

  /** Counts running work; spares wait until there is none. */
  async whileRunning<T>(work: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
      this.#lastRun = performance.now();
    }
  }

  /** Starts missing spares one after the other. */
  refill(idleMs: number): Promise<void> {
    this.#refilling ??= this.#refill(idleMs)
      .catch((error: unknown) => logFailure("spare kernel", error))
      .finally(() => {
        this.#refilling = undefined;
      });
    return this.#refilling;
  }

  async #refill(idleMs: number): Promise<void> {
    for (let language = this.#lacking(); language !== undefined; language = this.#lacking()) {
      await this.#untilIdle(idleMs);
      const coming = this.#start(language);
      this.#coming.set(language, coming);
      try {
        const spare = await coming;
        if (this.#coming.get(language) === coming) this.#keep(language, spare);
      } finally {
        if (this.#coming.get(language) === coming) this.#coming.delete(language);
      }
    }
  }

  #lacking(): Language | undefined {
    return [...this.counts].find(([language, count]) => (this.#spares.get(language)?.length ?? 0) < count)?.[0];
  }

  #keep(language: Language, spare: Kernel): void {
    const spares = this.#spares.get(language) ?? [];
    this.#spares.set(language, spares);
    spares.push(spare);
    void spare.ended.then(() => {
      const at = spares.indexOf(spare);
      if (at !== -1) spares.splice(at, 1);
    });
  }

  async #untilIdle(idleMs: number): Promise<void> {
    const deadline = performance.now() + SPARE_REFILL_MAX_MS;
    while (performance.now() < deadline) {
      const idle = this.#running > 0 ? 0 : performance.now() - this.#lastRun;
      if (idle >= idleMs) return;
      await Bun.sleep(idleMs - idle);
    }
  }

  async #start(language: Language): Promise<Kernel> {
    const current = this.facts.identity();
    const kernel = await language.start(HOME_FOLDER);
    this.#seededAs.set(kernel, current);
    return kernel;
  }
}
