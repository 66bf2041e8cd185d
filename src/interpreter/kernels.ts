/**
 * Kernels for contexts: a spare one at once, or a new one. Spares run before anybody needs them, are in the snapshot of
 * the template, and are replaced when no code runs, so that nobody waits for their start.
 */
import type { Kernel, Language } from "./kernel.ts";
import { logFailure } from "./log.ts";
import type { SandboxFacts } from "./sandbox-facts.ts";

/** A used spare is replaced when no code has run for this long, */
const SPARE_REFILL_IDLE_MS = 1_000;
/** or after this long, if some always runs. */
const SPARE_REFILL_MAX_MS = 20_000;

/** Where all kernels begin. */
export const HOME_FOLDER = "/home/user";

export class Kernels {
  readonly facts: SandboxFacts;
  readonly #counts: ReadonlyMap<Language, number>;
  readonly #spares = new Map<Language, Kernel[]>();
  /** The spare that is being started, until it is kept or taken. */
  readonly #coming = new Map<Language, Promise<Kernel>>();
  /** As which sandbox a kernel has drawn its random numbers last. */
  readonly #seededAs = new WeakMap<Kernel, string>();
  #running = 0;
  #lastRun = 0;
  #refilling: Promise<void> | undefined;

  /** `counts`: how many spares of which language there should be. */
  constructor(counts: ReadonlyMap<Language, number>, facts: SandboxFacts) {
    this.#counts = counts;
    this.facts = facts;
  }

  async take(language: Language): Promise<Kernel> {
    const spare = this.#spares.get(language)?.shift() ?? (await this.#takeComing(language));
    // Spares wait for it: they would take the processor from it.
    if (spare === undefined) return await this.whileRunning(() => this.#start(language));
    this.#lastRun = performance.now();
    void this.refill(SPARE_REFILL_IDLE_MS);
    return spare;
  }

  /** It is there sooner than one that is started now, and does not share the processor with that. */
  async #takeComing(language: Language): Promise<Kernel | undefined> {
    const coming = this.#coming.get(language);
    this.#coming.delete(language);
    return await coming?.catch(() => undefined);
  }

  /** Before code runs in it: true when it is a copy of one in another sandbox, and has new seeds from now on. */
  async settle(kernel: Kernel): Promise<boolean> {
    const current = this.facts.identity();
    if (this.#seededAs.get(kernel) === current) return false;
    await kernel.reseed();
    this.#seededAs.set(kernel, current);
    return true;
  }

  /** Counts what runs: spares wait for it. */
  async whileRunning<T>(work: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#running--;
      this.#lastRun = performance.now();
    }
  }

  /** Starts what is missing, one after the other. */
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
    return [...this.#counts].find(([language, count]) => (this.#spares.get(language)?.length ?? 0) < count)?.[0];
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
