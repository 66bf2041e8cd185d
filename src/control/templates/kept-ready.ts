/** Tells the host which sandboxes to keep ready: of what is built in, and of templates that somebody gave a number. */

import type { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import { OneAtATime } from "../../base/one-at-a-time.ts";
import type { Host, KeptReady } from "../../contract/internal/host.ts";
import type { Store } from "../../store/store.ts";
import type { BuiltinDefinition } from "./builtin-definition.ts";
import { kindOf } from "./template-look-up.ts";

/** A number that the operator has set beside the server is noticed after this at the latest. */
export const KEPT_READY_LOOK_MS = 5_000;

interface ReadyServices {
  store: Store;
  host: Host;
  background: Background;
  /** Of what nobody waits for. */
  idleClock: Clock;
}

export class ReadyOrders {
  readonly #services: ReadyServices;
  /** Of each template that is built in. */
  readonly #builtinCount: number;
  /** Those that are built when they are asked for: they have numbers of their own. */
  readonly #defined: ReadonlySet<string>;
  readonly #turns = new OneAtATime();
  /** Set while one waits that has not looked yet: it sees whatever was changed meanwhile. */
  #waits = false;
  /** What the host knows. */
  #told: readonly KeptReady[] | undefined;
  #timer: Timer | undefined;

  constructor(services: ReadyServices, builtinCount: number, definitions: readonly BuiltinDefinition[]) {
    this.#services = services;
    this.#builtinCount = builtinCount;
    this.#defined = new Set(definitions.map(({ id }) => id));
  }

  /** From now on it also looks for numbers that the operator has set beside the server. */
  start(): void {
    this.changed();
    this.#timer = this.#services.idleClock.after(KEPT_READY_LOOK_MS, () => this.start());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** To be called when a build became ready, or a template was deleted or given another number. */
  changed(): void {
    if (this.#waits) return;
    this.#waits = true;
    this.#services.background.run("the host was not told what to keep ready", () =>
      this.#turns.run(() => this.#tell()),
    );
  }

  /** Of what comes with Sandlot its own number, unless none of what is built in is to be kept. */
  #countOf(templateId: string, own: number): number {
    return this.#builtinCount > 0 && this.#defined.has(templateId) ? own : this.#builtinCount;
  }

  async #tell(): Promise<void> {
    this.#waits = false;
    const { store, host } = this.#services;
    const kept: KeptReady[] = [];
    for (const { build, isBuiltIn, count } of await store.buildsInUse.keptReady()) {
      const wanted = isBuiltIn ? this.#countOf(build.templateId, count) : count;
      kept.push({ kind: kindOf(build), count: wanted, checkpoint: build.checkpoint });
    }
    if (Bun.deepEquals(kept, this.#told)) return;
    // Unless it has heard all of it, it is told again.
    this.#told = undefined;
    await host.keepReady(kept);
    this.#told = kept;
  }
}
