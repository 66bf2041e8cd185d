/** One build, from its base to its outcome. */
import { Fault } from "../../contract/fault.ts";
import type { Checkpoints } from "../checkpoint/checkpoints.ts";
import { demandFit } from "../checkpoint/manifest.ts";
import type { BuildOutcome, BuildRequest, BuildStep, SandboxKind } from "../host.ts";
import { BUILD_COMMAND_SHOWN_CHARS } from "../limits.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import type { BuildContext } from "./build-context.ts";
import type { BuildLog } from "./build-log.ts";
import { BuildSandbox, type SandboxSource } from "./build-sandbox.ts";
import { imageKey, originKey, startKey, stepKey } from "./layer-key.ts";
import type { Layer, Layers } from "./layers.ts";
import type { BuildResults } from "./results.ts";
import { startUntilReady } from "./start-command.ts";
import { afterEnv, isDiskStep, runStep, type UploadedFiles } from "./steps.ts";

const NOT_KEPT =
  "What the start command started cannot be kept, so each sandbox runs the start command when it is created";

export interface BuildBounds {
  maxMs: number;
  /** Until a ready command succeeds. */
  readyMaxMs: number;
  /** What a start command without a ready command is given. */
  readyDefaultMs: number;
  logMaxBytes: number;
  /** Of all layers that are kept for the next builds, and how long one is kept that none began with. */
  layersMaxBytes: number;
  layersKeptMs: number;
}

/** Where root filesystems are kept. */
export interface BuildImages {
  has(name: string): boolean;
  /** Fault 404 when there is no such image, 400 when nothing more can be stacked on it. */
  demandStackable(parent: string): void;
  add(name: string, made: { parent: string; disk: string; signal: AbortSignal }): Promise<void>;
  remove(name: string): Promise<void>;
  /** It is not collected until it is let go. */
  hold(name: string): Disposable;
}

export interface BuildParts {
  bounds: BuildBounds;
  sandboxes: SandboxSource;
  runtime: Pick<Runtime, "misfit">;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  images: BuildImages;
  layers: Layers;
  results: BuildResults;
  files: UploadedFiles;
}

/** What a build begins with. */
interface Base {
  image: string;
  /** The disk of a snapshot, which has more than its image. */
  disk: Pick<Layer, "folder" | "hostname"> | undefined;
  context: BuildContext;
  key: string;
}

/** How far a build has come: `key` names all that led here, `diskKey` the layer that has all of its disk. */
interface Progress {
  context: BuildContext;
  key: string;
  diskKey: string | undefined;
  /** In which the last steps were run. */
  sandbox: BuildSandbox | undefined;
}

export class BuildRun {
  /** Where it is, in the words of an outcome. */
  at = "base";
  readonly #parts: BuildParts;
  readonly #request: BuildRequest;
  readonly #log: BuildLog;
  readonly #signal: AbortSignal;
  readonly #isForced: boolean;

  constructor(parts: BuildParts, request: BuildRequest, log: BuildLog, signal: AbortSignal) {
    this.#parts = parts;
    this.#request = request;
    this.#log = log;
    this.#signal = signal;
    this.#isForced = request.force || request.steps.some(({ force }) => force);
  }

  async finish(): Promise<BuildOutcome> {
    const { images } = this.#parts;
    const base = this.#findBase();
    using _base = images.hold(base.image);
    images.demandStackable(base.image);
    await using undo = new AsyncDisposableStack();
    const { made, image } = await this.#makeImage(base, undo);
    using _image = images.hold(image);
    const kind = this.#kind(image, made.context);
    const checkpoint = await this.#proven(kind, made, undo);
    this.#remember(base, made, image, checkpoint);
    undo.move();
    const { user: defaultUser, workdir: defaultWorkdir, envVars } = made.context;
    return { isReady: true, image, defaultUser, defaultWorkdir, envVars, checkpoint };
  }

  #findBase(): Base {
    const { from, owner, diskSizeMB } = this.#request;
    if (from.kind === "registry") throw new Fault(501, "this server cannot fetch images yet; build from a template");
    const { image, defaultUser: user, defaultWorkdir: workdir } = from.from;
    const context = { user, home: user === "root" ? "/root" : `/home/${user}`, workdir, envVars: from.envVars };
    const key = originKey(owner, [image, from.checkpoint, context], diskSizeMB);
    if (from.checkpoint === null) return { image, disk: undefined, context, key };
    const { folder, manifest } = this.#parts.checkpoints.read(from.checkpoint);
    return { image, disk: { folder, hostname: manifest.hostname }, context, key };
  }

  async #makeImage(base: Base, undo: AsyncDisposableStack): Promise<{ made: Progress; image: string }> {
    await using used = new AsyncDisposableStack();
    const made = await this.#runSteps(base, used);
    this.at = "finalize";
    return { made, image: await this.#keepImage(base, made, undo) };
  }

  /** Begins with the deepest layer that is there, and runs what comes after it. */
  async #runSteps(base: Base, used: AsyncDisposableStack): Promise<Progress> {
    const { steps } = this.#request;
    const keys: string[] = [];
    for (const step of steps) keys.push(stepKey(keys.at(-1) ?? base.key, step));
    const layer = this.#deepestLayer(keys);
    const done = layer === undefined ? 0 : keys.indexOf(layer.key) + 1;
    for (const [at, step] of steps.slice(0, done).entries()) this.#announce(at, step, "CACHED ");
    const begun: Progress = {
      context: layer?.context ?? base.context,
      key: layer?.key ?? base.key,
      diskKey: layer?.key,
      sandbox: undefined,
    };
    const rest = steps.slice(done).map((step, at) => ({ step, at: done + at, key: keys[done + at] ?? "" }));
    if (layer !== undefined) used.use(this.#parts.layers.keep(layer.key));
    if (!rest.some(({ step }) => isDiskStep(step))) return await this.#runAll(rest, begun);
    const sandbox = used.use(await this.#bootOn(base, layer));
    const home = layer === undefined ? await sandbox.homeOf(begun.context.user) : undefined;
    if (home !== undefined) begun.context = { ...begun.context, home };
    return await this.#runAll(rest, { ...begun, sandbox });
  }

  /** Of those before the first step that is to be run whatever there is. */
  #deepestLayer(keys: readonly string[]): Layer | undefined {
    const { steps, force } = this.#request;
    const forced = steps.findIndex((step) => step.force);
    const usable = force ? [] : keys.slice(0, forced < 0 ? keys.length : forced);
    for (const key of usable.toReversed()) {
      const layer = this.#parts.layers.find(key);
      if (layer !== undefined) return layer;
    }
    return undefined;
  }

  async #runAll(steps: readonly { step: BuildStep; at: number; key: string }[], begun: Progress): Promise<Progress> {
    const { files, layers } = this.#parts;
    const { sandbox } = begun;
    let { context, diskKey } = begun;
    const lastOfDisk = steps.findLast(({ step }) => isDiskStep(step));
    for (const { step, at, key } of steps) {
      this.#signal.throwIfAborted();
      this.#announce(at, step, "");
      if (!isDiskStep(step) || sandbox === undefined) {
        if (!isDiskStep(step)) context = afterEnv(step, context);
        continue;
      }
      context = await runStep(step, context, { sandbox, files, output: this.#log.output(this.at) });
      // Users and folders are made again faster than a layer is written.
      if (step.type !== "run" && step.type !== "copy" && step !== lastOfDisk?.step) continue;
      await layers.write(sandbox.record, key, { context, owner: this.#request.owner, before: diskKey });
      diskKey = key;
    }
    return { context, key: steps.at(-1)?.key ?? begun.key, diskKey, sandbox };
  }

  #announce(at: number, step: BuildStep, prefix: string): void {
    this.at = String(at + 1);
    this.#log.say("info", this.at, `[${at + 1}/${this.#request.steps.length}] ${prefix}${shown(step)}`);
  }

  async #bootOn(base: Base, layer: Layer | undefined): Promise<BuildSandbox> {
    const kind = { ...this.#kind(base.image, base.context), defaultUser: "root", defaultWorkdir: "/" };
    const request = { kind, envVars: {}, internet: true };
    const boot = (disk: Base["disk"]) =>
      BuildSandbox.of(
        this.#parts.sandboxes,
        (opened) =>
          this.#parts.sandboxes.boot(opened, disk && { disk: disk.folder, hostname: disk.hostname, copy: false }),
        request,
        this.#signal,
      );
    return layer === undefined ? await boot(base.disk) : await this.#parts.layers.hold(layer.key, boot);
  }

  /** What the build wrote becomes an image, unless it wrote nothing, or the same is there already. */
  async #keepImage(base: Base, made: Progress, undo: AsyncDisposableStack): Promise<string> {
    const { images, results } = this.#parts;
    if (made.diskKey === undefined && base.disk === undefined) return base.image;
    const known = this.#isForced ? undefined : results.find(this.#imageKey(base, made));
    if (known !== undefined && images.has(known.image)) return known.image;
    if (made.sandbox !== undefined) return await this.#addImage(base, made.sandbox, undo);
    const layer = made.diskKey === undefined ? undefined : this.#parts.layers.find(made.diskKey);
    await using sandbox = await this.#bootOn(base, layer);
    return await this.#addImage(base, sandbox, undo);
  }

  async #addImage(base: Base, sandbox: BuildSandbox, undo: AsyncDisposableStack): Promise<string> {
    const { images, checkpoints, checkpointing } = this.#parts;
    const { templateId, id: buildId, owner } = this.#request;
    this.#log.say("debug", this.at, "Writing the image");
    await sandbox.sign({ templateId, buildId });
    const name = `t${randomHex()}`;
    // Needed for a moment: the disk without what layers are not to know, whose build it is.
    await checkpointing.write(sandbox.record, name, { memory: false, temporary: true, owner }, "goes on");
    try {
      const { disk } = checkpoints.folderOf(name);
      await images.add(name, { parent: base.image, disk, signal: this.#signal });
    } finally {
      await checkpoints.remove(name);
    }
    undo.defer(() => images.remove(name));
    return name;
  }

  /** A checkpoint that was seen to work; null: there is none. */
  async #proven(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const known = this.#knownStart(kind, made);
    if (known !== undefined && (await this.#prove(kind, made.context, known)) === undefined) return known;
    const kept = await this.#keepStart(kind, made, undo);
    const misfit = await this.#prove(kind, made.context, kept);
    if (misfit === undefined) return kept;
    this.#log.say("warn", this.at, `${NOT_KEPT}: ${misfit}`);
    return null;
  }

  /** Of an earlier build that was the same. */
  #knownStart(kind: SandboxKind, made: Progress): string | undefined {
    if (this.#isForced || this.#request.start === null) return undefined;
    const known = this.#parts.results.find(this.#startKey(made));
    const isSame = known?.image === kind.image && known.checkpoint !== undefined && this.#fits(known.checkpoint);
    return isSame ? known.checkpoint : undefined;
  }

  /** Null: there is nothing to start, or what was started cannot be kept. */
  async #keepStart(kind: SandboxKind, made: Progress, undo: AsyncDisposableStack): Promise<string | null> {
    const { start, owner } = this.#request;
    if (start === null) return null;
    const { checkpoints, checkpointing, sandboxes, bounds } = this.#parts;
    this.#log.say("info", this.at, `Starting ${shortened(start.command)}`);
    const request = { kind, envVars: made.context.envVars, internet: true };
    await using sandbox = await BuildSandbox.of(sandboxes, (opened) => sandboxes.boot(opened), request, this.#signal);
    const output = this.#log.output(this.at);
    await startUntilReady(sandbox, { start, context: made.context, output, bounds });
    this.#log.say("info", this.at, "Ready");
    const name = `start-${randomHex()}`;
    try {
      await sandbox.keepMemory(checkpointing, name, owner);
      undo.defer(() => checkpoints.remove(name));
      return name;
    } catch (cause) {
      if (this.#signal.aborted || !(cause instanceof Fault) || cause.status !== 422) throw cause;
      this.#log.say("warn", this.at, `${NOT_KEPT}: ${cause.message}`);
      return null;
    }
  }

  /** Whether it is there, whole, and this machine can restore it. */
  #fits(checkpoint: string): boolean {
    try {
      const { manifest } = this.#parts.checkpoints.read(checkpoint);
      if (manifest.memory === undefined) return false;
      demandFit(manifest.memory, this.#parts.runtime);
      return true;
    } catch {
      return false;
    }
  }

  /** A sandbox is created as for a client, and runs a command. Answers why the checkpoint could not be used, if so. */
  async #prove(kind: SandboxKind, context: BuildContext, checkpoint: string | null): Promise<string | undefined> {
    const { start } = this.#request;
    const { sandboxes } = this.#parts;
    const request = {
      kind,
      envVars: context.envVars,
      internet: true,
      ...(checkpoint === null ? {} : { checkpoint }),
      ...(start === null ? {} : { start }),
    };
    await using sandbox = await BuildSandbox.of(sandboxes, (opened) => sandboxes.create(opened), request, this.#signal);
    if (await sandbox.hasShell()) await sandbox.shell("true", context, this.#log.output(this.at));
    this.#log.say("debug", this.at, "A sandbox of this template runs commands");
    return sandbox.misfit;
  }

  #remember(base: Base, made: Progress, image: string, checkpoint: string | null): void {
    const { results } = this.#parts;
    if (image !== base.image) results.keep(this.#imageKey(base, made), { image });
    if (checkpoint !== null) results.keep(this.#startKey(made), { image, checkpoint });
  }

  /** The image says of which template it is. */
  #imageKey(base: Base, made: Progress): string {
    return imageKey(made.diskKey ?? base.key, this.#request.templateId);
  }

  #startKey({ key }: Progress): string {
    const { start, cpuCount, memoryMB, diskSizeMB } = this.#request;
    return startKey(key, start ?? { command: "", ready: null }, [cpuCount, memoryMB, diskSizeMB]);
  }

  #kind(image: string, { user, workdir }: BuildContext): SandboxKind {
    const { templateId, cpuCount, memoryMB, diskSizeMB } = this.#request;
    return { templateId, image, cpuCount, memoryMB, diskSizeMB, defaultUser: user, defaultWorkdir: workdir };
  }
}

function shown(step: BuildStep): string {
  switch (step.type) {
    case "run":
      return `RUN ${shortened(step.command)}`;
    case "copy":
      return `COPY ${shortened(step.source)} ${shortened(step.target)}`;
    case "env":
      // Values may be secrets; names are not.
      return `ENV ${shortened(step.variables.map(([name]) => name).join(" "))}`;
    case "workdir":
      return `WORKDIR ${shortened(step.path)}`;
    case "user":
      return `USER ${shortened(step.name)}`;
  }
}

function shortened(text: string): string {
  const line = text.replaceAll("\0", "\ufffd");
  return line.length > BUILD_COMMAND_SHOWN_CHARS ? `${line.slice(0, BUILD_COMMAND_SHOWN_CHARS)}…` : line;
}

function randomHex(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(10))).toString("hex");
}
