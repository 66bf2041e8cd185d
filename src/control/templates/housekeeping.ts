/**
 * Removes what templates have left behind: images that nobody can start from any more, snapshots that a newer one has
 * taken the tag of, builds of earlier versions of what comes with the server, and builds that nobody starts. From time
 * to time, and soon after something was deleted.
 */

import type { Background } from "../../base/background.ts";
import type { Clock, Timer } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { Host } from "../../contract/internal/host.ts";
import type { Store } from "../../store/store.ts";

/** What templates have left behind is looked for so often. */
export const HOUSEKEEPING_EVERY_MS = 60_000;
/** A snapshot that a newer one has taken the tag of can be used by its build id for so long. */
export const SUPERSEDED_SNAPSHOT_KEPT_MS = 86_400_000;
const SUPERSEDED_SNAPSHOTS_PER_ROUND = 100;
/** A build of an earlier version of a template that comes with Sandlot can be used by its version for so long. */
export const SUPERSEDED_BUILTIN_KEPT_MS = 86_400_000;

interface HousekeepingServices {
  store: Store;
  host: Host;
  clock: Clock;
  /** Of what goes on beside. */
  idleClock: Clock;
  log: Log;
  background: Background;
  endAbandonedBuilds(): Promise<void>;
  /** Images of builds that have ended lately: their rows may be younger than what was read of them. */
  imagesInHand(): readonly string[];
  /** Removes, in its own time, those of these checkpoints that no build is started from. */
  discard(checkpoints: readonly string[]): void;
}

export class Housekeeping {
  readonly #services: HousekeepingServices;
  #next: Timer | undefined;
  #isUnderWay = false;
  #isWanted = false;
  #isClosed = false;

  constructor(services: HousekeepingServices) {
    this.#services = services;
  }

  /** Begins a round, or has one follow the one that is under way. The next comes by itself. */
  soon(): void {
    if (this.#isClosed) return;
    this.#isWanted = true;
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    this.#next?.cancel();
    const { background, idleClock } = this.#services;
    background.run("what templates have left behind could not be removed", async () => {
      try {
        while (this.#isWanted && !this.#isClosed) {
          this.#isWanted = false;
          await this.#round();
        }
      } finally {
        this.#isUnderWay = false;
        if (!this.#isClosed) this.#next = idleClock.after(HOUSEKEEPING_EVERY_MS, () => this.soon());
      }
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#next?.cancel();
  }

  async #round(): Promise<void> {
    const { store, host, imagesInHand } = this.#services;
    await this.#services.endAbandonedBuilds();
    await this.#retireSnapshots();
    await this.#retireBuiltins();
    const named = await store.buildsInUse.images();
    await host.collectImages([...new Set([...named, ...imagesInHand()])]);
  }

  async #retireBuiltins(): Promise<void> {
    const { store, clock, log, discard } = this.#services;
    const now = clock.now();
    const { count, checkpoints } = await store.buildsInUse.retireBuiltins(now - SUPERSEDED_BUILTIN_KEPT_MS, now);
    if (count === 0) return;
    log.write({ level: "info", event: "builds of earlier versions of built-in templates removed", count });
    discard(checkpoints);
  }

  async #retireSnapshots(): Promise<void> {
    const { store, clock, log, discard } = this.#services;
    const before = clock.now() - SUPERSEDED_SNAPSHOT_KEPT_MS;
    const retired = await store.buildsInUse.retireSnapshots(before, clock.now(), SUPERSEDED_SNAPSHOTS_PER_ROUND);
    if (retired.length === 0) return;
    log.write({ level: "info", event: "superseded snapshots removed", count: retired.length });
    discard(retired);
    // There may be more.
    if (retired.length === SUPERSEDED_SNAPSHOTS_PER_ROUND) this.#isWanted = true;
  }
}
