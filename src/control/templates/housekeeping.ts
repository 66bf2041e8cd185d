/**
 * Removes leftovers of templates: images that no build can start from, snapshots whose tag a newer one has taken,
 * builds of earlier versions of built-in templates, templates of deleted teams, and abandoned builds. Runs
 * periodically, and soon after a deletion.
 */
import type { Timer } from "../../base/clock.ts";
import type { Parts } from "../parts.ts";

/** Interval between rounds. */
export const HOUSEKEEPING_EVERY_MS = 60_000;
/** Maximum snapshots, and builds of built-in templates, that one round removes. */
const PER_ROUND = 100;
/** How long a snapshot whose tag a newer one has taken stays usable by its build id. */
export const SUPERSEDED_SNAPSHOT_KEPT_MS = 86_400_000;
/** How long a build of an earlier version of a built-in template stays usable by its version. */
export const SUPERSEDED_BUILTIN_KEPT_MS = 86_400_000;

interface HousekeepingServices extends Parts {
  endAbandonedBuilds(): Promise<void>;
  /** Images of recently finished builds: their rows may be newer than the rows just read. */
  newImages(): readonly string[];
  /** Removes those of these checkpoints that no build starts from, in the background. */
  discard(checkpoints: readonly string[]): void;
}

export class Housekeeping {
  #next: Timer | undefined;
  #isUnderWay = false;
  #isWanted = false;
  #isClosed = false;

  constructor(private readonly services: HousekeepingServices) {}

  /** Begins a round, or requests another after the current one. Further rounds follow on their own. */
  soon(): void {
    if (this.#isClosed) return;
    this.#isWanted = true;
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    this.#next?.cancel();
    const { background, idleClock } = this.services;
    background.run("leftovers of templates could not be removed", async () => {
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
    const { store, host, clock, log, discard, newImages } = this.services;
    await this.services.endAbandonedBuilds();
    const now = clock.now();
    const snapshots = await store.buildsInUse.retireSnapshots(now - SUPERSEDED_SNAPSHOT_KEPT_MS, now, PER_ROUND);
    if (snapshots.count > 0)
      log.write({ level: "info", event: "superseded snapshots removed", count: snapshots.count });
    discard(snapshots.checkpoints);
    const builtins = await store.buildsInUse.retireBuiltins(now - SUPERSEDED_BUILTIN_KEPT_MS, now, PER_ROUND);
    const event = "builds of earlier versions of built-in templates removed";
    if (builtins.count > 0) log.write({ level: "info", event, count: builtins.count });
    discard(builtins.checkpoints);
    await store.teamLeftovers.removeOrphans();
    // There may be more.
    if (snapshots.count === PER_ROUND) this.#isWanted = true;
    const named = await store.buildsInUse.images();
    await host.collectImages([...new Set([...named, ...newImages()])]);
  }
}
