/** The end of a build: what it wrote becomes an image, what it starts a checkpoint, and both are seen to work. */
import { Fault } from "../contract/fault.ts";
import type { SandboxKind } from "../contract/internal/host.ts";
import { demandFit } from "../sandbox/checkpoint/manifest.ts";
import type { BuildContext } from "./build-context.ts";
import type { Base, BuildJob, Progress } from "./build-job.ts";
import type { BuildSandbox } from "./build-sandbox.ts";
import { imageKey, startKey } from "./layer-key.ts";
import { shortened } from "./shown-step.ts";
import { startUntilReady } from "./start-command.ts";

const NOT_KEPT =
  "What the start command started cannot be kept, so each sandbox runs the start command when it is created";

/** What is done when a build has come to its end: in any case, and unless it ended well. */
export interface Ends {
  holds: DisposableStack;
  undo: AsyncDisposableStack;
}

export class FinishPhase {
  readonly #job: BuildJob;
  readonly #bootOn: (base: Base, layer: string | undefined) => Promise<BuildSandbox>;

  constructor(job: BuildJob, bootOn: (base: Base, layer: string | undefined) => Promise<BuildSandbox>) {
    this.#job = job;
    this.#bootOn = bootOn;
  }

  /** What the build wrote becomes an image, unless it wrote nothing, or the same is there already. */
  async keepImage(base: Base, made: Progress, ends: Ends): Promise<string> {
    const { images, results } = this.#job.parts;
    if (made.diskKey === undefined && base.disk === undefined) return base.image;
    const known = this.#job.isForced ? undefined : results.find(this.#imageKey(base, made));
    if (known !== undefined) {
      // First: it may be about to be collected.
      ends.holds.use(images.hold(known.image));
      if (images.has(known.image)) return known.image;
    }
    if (made.sandbox !== undefined) return await this.#addImage(base, made.sandbox, ends);
    await using sandbox = await this.#bootOn(base, made.diskKey);
    return await this.#addImage(base, sandbox, ends);
  }

  async #addImage(base: Base, sandbox: BuildSandbox, { holds, undo }: Ends): Promise<string> {
    const { images, checkpoints, checkpointing } = this.#job.parts;
    const { templateId, id: buildId, owner } = this.#job.request;
    this.#job.say("debug", "Writing the image");
    await sandbox.sign({ templateId, buildId });
    const name = `t${randomHex()}`;
    holds.use(images.hold(name));
    // Needed for a moment: the disk without what layers are not to know, whose build it is.
    await checkpointing.write(sandbox.record, name, { memory: false, temporary: true, owner }, "goes on");
    try {
      const { disk } = checkpoints.folderOf(name);
      await images.add(name, { parent: base.image, disk, signal: this.#job.signal });
    } finally {
      await checkpoints.remove(name);
    }
    undo.defer(() => images.remove(name));
    return name;
  }

  /** A checkpoint that was seen to work; null: there is none. */
  async proven(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const known = this.#knownStart(kind, made);
    if (known !== undefined && (await this.#prove(kind, made.context, known)) === undefined) {
      // The last template that had it may have gone meanwhile, and it with that.
      if (this.#fits(known)) return known;
    }
    const kept = await this.#keepStart(kind, made, undo);
    const mismatch = await this.#prove(kind, made.context, kept);
    if (mismatch === undefined || kept === null) return kept;
    this.#job.say("warn", `${NOT_KEPT}: ${mismatch}`);
    await this.#job.parts.checkpoints.remove(kept);
    return null;
  }

  /** Of an earlier build that was the same. */
  #knownStart(kind: SandboxKind, made: Progress): string | undefined {
    if (this.#job.isForced || this.#job.request.start === null) return undefined;
    const known = this.#job.parts.results.find(this.#startKey(made));
    const isSame = known?.image === kind.image && known.checkpoint !== undefined && this.#fits(known.checkpoint);
    return isSame ? known.checkpoint : undefined;
  }

  /** Null: there is nothing to start, or what was started cannot be kept. */
  async #keepStart(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const { start, owner } = this.#job.request;
    if (start === null) return null;
    const { checkpoints, checkpointing, sandboxes, bounds } = this.#job.parts;
    this.#job.say("info", `Starting ${shortened(start.command)}`);
    const request = { kind, envVars: made.context.envVars, egress: this.#job.egress };
    await using sandbox = await this.#job.start(request, (opened) => sandboxes.boot(opened));
    const output = this.#job.log.output(this.#job.at);
    await startUntilReady(sandbox, { start, context: made.context, output, bounds });
    this.#job.say("info", "Ready");
    const name = `start-${randomHex()}`;
    try {
      await sandbox.keepMemory(checkpointing, name, owner);
      undo.defer(() => checkpoints.remove(name));
      return name;
    } catch (cause) {
      if (this.#job.signal.aborted || !(cause instanceof Fault) || cause.status !== 422) throw cause;
      this.#job.say("warn", `${NOT_KEPT}: ${cause.message}`);
      return null;
    }
  }

  /** Whether it is there, whole, and this machine can restore it. */
  #fits(checkpoint: string): boolean {
    try {
      const { manifest } = this.#job.parts.checkpoints.read(checkpoint);
      if (manifest.memory === undefined) return false;
      const { parts, request } = this.#job;
      const wall = parts.walls.nameFor(request);
      demandFit(manifest.memory, wall, parts.walls.of(wall));
      return true;
    } catch {
      return false;
    }
  }

  /** A sandbox is created as for a client, and runs a command. Answers why the checkpoint could not be used, if so. */
  async #prove(kind: SandboxKind, context: BuildContext, checkpoint: string | null): Promise<string | undefined> {
    const { start } = this.#job.request;
    const { sandboxes } = this.#job.parts;
    const request = {
      kind,
      envVars: context.envVars,
      egress: this.#job.egress,
      ...(checkpoint === null ? {} : { checkpoint }),
      ...(start === null ? {} : { start }),
    };
    await using sandbox = await this.#job.start(request, (opened) => sandboxes.create(opened));
    if (await sandbox.hasShell()) await sandbox.shell("true", context, this.#job.log.output(this.#job.at));
    this.#job.say("debug", "A sandbox of this template runs commands");
    return sandbox.mismatch;
  }

  remember(base: Base, made: Progress, image: string, checkpoint: string | null): void {
    const { results } = this.#job.parts;
    if (image !== base.image) results.keep(this.#imageKey(base, made), { image });
    if (checkpoint !== null) results.keep(this.#startKey(made), { image, checkpoint });
  }

  /** The image says of which template it is. */
  #imageKey(base: Base, made: Progress): string {
    return imageKey(made.diskKey ?? base.key, this.#job.request.templateId);
  }

  #startKey({ key }: Progress): string {
    const { start, cpuCount, memoryMB, diskSizeMB } = this.#job.request;
    return startKey(key, start ?? { command: "", ready: null }, [cpuCount, memoryMB, diskSizeMB]);
  }
}

function randomHex(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(10))).toString("hex");
}
