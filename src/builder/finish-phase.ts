/** The end of a build: writes its image and the checkpoint of its start command, and tests both. */
import { randomHex } from "../base/random-hex.ts";
import { Fault } from "../contract/fault.ts";
import type { SandboxKind } from "../contract/internal/host.ts";
import { requireFit } from "../sandbox/checkpoint/manifest.ts";
import type { BuildContext } from "./build-context.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import type { BuildSandbox } from "./build-sandbox.ts";
import { imageKey, startKey } from "./layer-key.ts";
import { startUntilReady } from "./start-command.ts";
import { shortened } from "./step-line.ts";
import type { StepPhase } from "./step-phase.ts";

/** Of the random part in names of images and checkpoints. */
const NAME_BYTES = 10;

const NOT_KEPT =
  "What the start command started cannot be kept, so each sandbox runs the start command when it is created";

/** Cleanup at the end of a build: `holds` always, `undo` only after a failure. */
export interface BuildCleanup {
  holds: DisposableStack;
  undo: AsyncDisposableStack;
}

export class FinishPhase {
  constructor(
    private readonly job: BuildJob,
    private readonly steps: StepPhase,
  ) {}

  /** Makes an image of what the build wrote, unless it wrote nothing or the image exists. */
  async keepImage(base: Base, made: Progress, ends: BuildCleanup): Promise<string> {
    const { images, results } = this.job.parts;
    if (made.diskKey === undefined && base.disk === undefined) return base.image;
    const known = this.job.isForced ? undefined : results.find(this.#imageKey(base, made));
    if (known !== undefined) {
      // Hold it before the check: a collection may be about to remove it.
      ends.holds.use(images.hold(known.image));
      if (images.has(known.image)) return known.image;
    }
    if (made.sandbox !== undefined) return await this.#addImage(base, made.sandbox, ends);
    await using sandbox = await this.steps.bootOn(base, made.diskKey);
    return await this.#addImage(base, sandbox, ends);
  }

  async #addImage(base: Base, sandbox: BuildSandbox, { holds, undo }: BuildCleanup): Promise<string> {
    const { images, checkpoints, checkpointing } = this.job.parts;
    const { templateId, id: buildId, owner } = this.job.request;
    this.job.say("debug", "Writing the image");
    await sandbox.sign({ templateId, buildId });
    const name = `t${randomHex(NAME_BYTES)}`;
    holds.use(images.hold(name));
    // A temporary clone of the disk. The build's ids are written after the last layer, so that layers do not contain
    // them.
    await checkpointing.write(sandbox.record, name, { memory: false, temporary: true, owner }, "keeps running");
    try {
      const { disk } = checkpoints.folderOf(name);
      await images.add(name, { parent: base.image, disk, signal: this.job.signal });
    } finally {
      await checkpoints.remove(name);
    }
    undo.defer(() => images.remove(name));
    return name;
  }

  /** A tested checkpoint; null: none. */
  async proven(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const known = this.#knownStart(kind, made);
    if (known !== undefined && (await this.#prove(kind, made.context, known)) === undefined) {
      // Its last template may have been deleted during the test, and the checkpoint with it.
      if (this.#fits(known)) return known;
    }
    const kept = await this.#keepStart(kind, made, undo);
    const mismatch = await this.#prove(kind, made.context, kept);
    if (mismatch === undefined || kept === null) return kept;
    this.job.say("warn", `${NOT_KEPT}: ${mismatch}`);
    await this.job.parts.checkpoints.remove(kept);
    return null;
  }

  /** The checkpoint of an earlier identical build. */
  #knownStart(kind: SandboxKind, made: Progress): string | undefined {
    if (this.job.isForced || this.job.request.start === null) return undefined;
    const known = this.job.parts.results.find(this.#startKey(made));
    const isSame = known?.image === kind.image && known.checkpoint !== undefined && this.#fits(known.checkpoint);
    return isSame ? known.checkpoint : undefined;
  }

  /** Null: no start command, or its processes cannot be checkpointed. */
  async #keepStart(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const { start, owner } = this.job.request;
    if (start === null) return null;
    const { checkpoints, checkpointing, bounds } = this.job.parts;
    this.job.say("info", `Starting ${shortened(start.command)}`);
    const request = { kind, envVars: made.context.envVars, egress: this.job.egress };
    await using sandbox = await this.job.start(request);
    const output = this.job.log.output(this.job.at);
    await startUntilReady(sandbox, { start, context: made.context, output, bounds });
    this.job.say("info", "Ready");
    const name = `start-${randomHex(NAME_BYTES)}`;
    try {
      await sandbox.keepMemory(checkpointing, name, owner);
      undo.defer(() => checkpoints.remove(name));
      return name;
    } catch (cause) {
      if (this.job.signal.aborted || !(cause instanceof Fault) || cause.status !== 422) throw cause;
      this.job.say("warn", `${NOT_KEPT}: ${cause.message}`);
      return null;
    }
  }

  /** Whether the checkpoint exists, is complete and can be restored on this host. */
  #fits(checkpoint: string): boolean {
    try {
      const { manifest } = this.job.parts.checkpoints.read(checkpoint);
      if (manifest.memory === undefined) return false;
      const { parts, request } = this.job;
      const name = parts.runtimes.nameFor(request);
      requireFit(manifest.memory, name, parts.runtimes.of(name));
      return true;
    } catch {
      return false;
    }
  }

  /** Creates a sandbox as for a client and runs a command. Returns why the checkpoint could not be used, if so. */
  async #prove(kind: SandboxKind, context: BuildContext, checkpoint: string | null): Promise<string | undefined> {
    const { start } = this.job.request;
    const request = {
      isAsForClient: true,
      kind,
      envVars: context.envVars,
      egress: this.job.egress,
      ...(checkpoint === null ? {} : { checkpoint }),
      ...(start === null ? {} : { start }),
    };
    await using sandbox = await this.job.start(request);
    if (await sandbox.hasShell()) await sandbox.shell("true", context, this.job.log.output(this.job.at));
    this.job.say("debug", "A sandbox of this template runs commands");
    return sandbox.mismatch;
  }

  remember(base: Base, made: Progress, image: string, checkpoint: string | null): void {
    const { results } = this.job.parts;
    if (image !== base.image) results.keep(this.#imageKey(base, made), { image });
    if (checkpoint !== null) results.keep(this.#startKey(made), { image, checkpoint });
  }

  /** Contains the template id, because the image does. */
  #imageKey(base: Base, made: Progress): string {
    return imageKey(made.diskKey ?? base.key, this.job.request.templateId);
  }

  #startKey({ key }: Progress): string {
    const { start, cpuCount, memoryMB, diskSizeMB } = this.job.request;
    return startKey(key, start ?? { command: "", ready: null }, [cpuCount, memoryMB, diskSizeMB]);
  }
}
