/**
 * Repairs builds whose started processes cannot be restored on this machine, or were never checkpointed. Their
 * sandboxes boot and run the start command, which is slower. So a new checkpoint is made in the background, once per
 * build, one at a time. The build stays ready throughout.
 */
import { Background } from "../../../base/background.ts";
import { described } from "../../../base/log.ts";
import { SerialQueue } from "../../../base/serial-queue.ts";
import { Fault } from "../../../contract/fault.ts";
import { RUNTIME_VERSION } from "../../../contract/runtime/version.ts";
import type { Build } from "../../../store/builds.ts";
import type { Parts } from "../../parts.ts";
import { sandboxKindOf } from "../../templates/template-lookup.ts";
import type { PrivateRangesOf } from "../egress.ts";

/** Delay before a failed repair of a build is retried. */
export const START_REPAIR_RETRY_MS = 600_000;
/** Builds whose failed repair is remembered. Older failures are forgotten and retried. */
const START_REPAIRS_KNOWN_MAX = 1_000;

interface RepairServices extends Parts {
  privateRangesOf: PrivateRangesOf;
  /** Removes those of these checkpoints that no build starts from, in the background. */
  discard(checkpoints: readonly string[]): void;
  /** Called when a build has a new checkpoint. */
  replaced(): void;
}

const NOT_KEPT = "its build could not keep them";

export class StartRepair {
  readonly #background: Background;
  readonly #turns = new SerialQueue();
  /** Per build: the time of the next attempt. Infinity while a repair is in progress, or when it can never succeed. */
  readonly #quietUntil = new Map<string, number>();
  #isClosed = false;

  constructor(private readonly services: RepairServices) {
    this.#background = new Background(services.log);
  }

  /** A sandbox of this build had to run the start command again; `mismatch` says why, if there was a checkpoint. */
  noteMismatch(build: Build, mismatch: string | undefined): void {
    if (this.#isClosed || this.services.clock.now() < (this.#quietUntil.get(build.id) ?? 0)) return;
    this.#setQuiet(build.id, Number.POSITIVE_INFINITY);
    const repair = () => this.#turns.run(() => this.#repair(build, mismatch ?? NOT_KEPT));
    this.#background.run("a template's start could not be repaired", repair);
  }

  /** Resolves once no repair is in progress. */
  settled(): Promise<void> {
    return this.#background.settled();
  }

  /** Does not wait for a repair in progress: the next start removes its files. */
  close(): void {
    this.#isClosed = true;
  }

  async #repair(build: Build, reason: string): Promise<void> {
    const { store, host, clock, ids, log } = this.services;
    if (this.#isClosed) return;
    // A create that began before a repair may report the mismatch after it.
    const isCurrent = (await store.builds.byId(build.id))?.checkpoint === build.checkpoint;
    if (build.start === null || !isCurrent) return void this.#quietUntil.delete(build.id);
    const { id, templateId, start, envVars } = build;
    const which = { template: templateId, build: id };
    log.write({ level: "warn", event: "a template's started processes cannot be restored", ...which, reason });
    const checkpoint = ids.uuid();
    try {
      const teamId = (await store.templates.everById(templateId))?.teamId;
      const privateRanges = await this.services.privateRangesOf(teamId ?? undefined);
      const opened = privateRanges.length > 0 && { privateRanges };
      await host.prepareStart({ name: checkpoint, kind: sandboxKindOf(build), envVars, start, ...opened });
      await this.#record(build, checkpoint);
      this.#quietUntil.delete(id);
    } catch (error) {
      // What cannot be checkpointed now will not be later, unless this machine changes.
      const isFinal = error instanceof Fault && error.status === 422;
      if (!isFinal) this.#setQuiet(id, clock.now() + START_REPAIR_RETRY_MS);
      const event = "a template's started processes could not be checkpointed again";
      log.write({ level: "error", event, ...which, error: described(error) });
    }
  }

  async #record(build: Build, checkpoint: string): Promise<void> {
    const { store, clock, log, discard, replaced } = this.services;
    if (this.#isClosed) return;
    const to = { checkpoint, guestVersion: RUNTIME_VERSION };
    if (!(await store.builds.replaceCheckpoint(build.id, build.checkpoint, to, clock.now()))) {
      // The build was deleted, or has another checkpoint by now.
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
