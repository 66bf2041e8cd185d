/**
 * Builds whose started processes cannot be restored on this machine, or could never be kept: their sandboxes boot and
 * run the start command, which takes longer. So a new checkpoint is made, once for each build, one at a time, beside
 * all else. The build stays ready throughout.
 */

import { Background } from "../../../base/background.ts";
import type { Clock } from "../../../base/clock.ts";
import { described, type Log } from "../../../base/log.ts";
import { OneAtATime } from "../../../base/one-at-a-time.ts";
import { Fault } from "../../../contract/fault.ts";
import type { Host } from "../../../contract/internal/host.ts";
import { RUNTIME_VERSION } from "../../../contract/runtime/version.ts";
import type { Build } from "../../../store/builds.ts";
import type { Store } from "../../../store/store.ts";
import type { Ids } from "../../access/ids.ts";
import { kindOf } from "../../templates/template-look-up.ts";
import type { PrivateRangesOf } from "../egress.ts";

/** A new checkpoint of a template's started processes that could not be made is tried again after this. */
export const START_REPAIR_RETRY_MS = 600_000;
/** Builds of which it is remembered that theirs could not be made; of others it is tried again. */
const START_REPAIRS_KNOWN_MAX = 1_000;

interface RepairServices {
  store: Store;
  host: Host;
  clock: Clock;
  ids: Ids;
  log: Log;
  privateRangesOf: PrivateRangesOf;
  /** Removes, in its own time, those of these checkpoints that no build is started from. */
  discard(checkpoints: readonly string[]): void;
  /** Told when a build has a new checkpoint. */
  replaced(): void;
}

const NOT_KEPT = "its build could not keep them";

export class StartRepair {
  readonly #services: RepairServices;
  readonly #background: Background;
  readonly #turns = new OneAtATime();
  /** By build: when it may be tried again. One that is under way, or that cannot be done, is not. */
  readonly #quietUntil = new Map<string, number>();
  #isClosed = false;

  constructor(services: RepairServices) {
    this.#services = services;
    this.#background = new Background(services.log);
  }

  /** A sandbox of this build had to run the start command anew; `mismatch` says why, if there was a checkpoint. */
  noteMismatch(build: Build, mismatch: string | undefined): void {
    if (this.#isClosed || this.#services.clock.now() < (this.#quietUntil.get(build.id) ?? 0)) return;
    this.#setQuiet(build.id, Number.POSITIVE_INFINITY);
    const repair = () => this.#turns.run(() => this.#repair(build, mismatch ?? NOT_KEPT));
    this.#background.run("a template's start could not be repaired", repair);
  }

  /** Resolves once none is under way. */
  settled(): Promise<void> {
    return this.#background.settled();
  }

  /** One that is under way is not waited for: the next start removes what it has written. */
  close(): void {
    this.#isClosed = true;
  }

  async #repair(build: Build, reason: string): Promise<void> {
    const { store, host, clock, ids, log } = this.#services;
    if (this.#isClosed) return;
    // Who asked for a sandbox before a repair may hear of the mismatch after it.
    const isCurrent = (await store.builds.byId(build.id))?.checkpoint === build.checkpoint;
    if (build.start === null || !isCurrent) return void this.#quietUntil.delete(build.id);
    const { id, templateId, start, envVars } = build;
    const which = { template: templateId, build: id };
    log.write({ level: "warn", event: "a template's started processes cannot be restored", ...which, reason });
    const checkpoint = ids.uuid();
    try {
      const teamId = (await store.templates.everById(templateId))?.teamId;
      const privateRanges = await this.#services.privateRangesOf(teamId ?? undefined);
      const opened = privateRanges.length > 0 && { privateRanges };
      await host.prepareStart({ name: checkpoint, kind: kindOf(build), envVars, start, ...opened });
      await this.#record(build, checkpoint);
      this.#quietUntil.delete(id);
    } catch (error) {
      // What cannot be kept now will not be kept later, unless something about this machine changes.
      const isFinal = error instanceof Fault && error.status === 422;
      if (!isFinal) this.#setQuiet(id, clock.now() + START_REPAIR_RETRY_MS);
      const event = "a template's started processes could not be checkpointed again";
      log.write({ level: "error", event, ...which, error: described(error) });
    }
  }

  async #record(build: Build, checkpoint: string): Promise<void> {
    const { store, clock, log, discard, replaced } = this.#services;
    if (this.#isClosed) return;
    const to = { checkpoint, guestVersion: RUNTIME_VERSION };
    if (!(await store.builds.replaceCheckpoint(build.id, build.checkpoint, to, clock.now()))) {
      // It has been deleted, or has another one by now.
      discard([checkpoint]);
      return;
    }
    if (build.checkpoint !== null) discard([build.checkpoint]);
    const event = "a template's started processes were checkpointed again";
    log.write({ level: "info", event, template: build.templateId, build: build.id });
    replaced();
  }

  #setQuiet(buildId: string, until: number): void {
    this.#quietUntil.delete(buildId);
    this.#quietUntil.set(buildId, until);
    const [oldest] = this.#quietUntil.keys();
    if (this.#quietUntil.size > START_REPAIRS_KNOWN_MAX && oldest !== undefined) this.#quietUntil.delete(oldest);
  }
}
