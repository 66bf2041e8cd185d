/** What all phases of one build share: what it is made with, what was asked for, and where it is. */
import { Fault } from "../contract/fault.ts";
import type { BuildRequest, CreatedSandbox, CreateSandbox, Egress, SandboxKind } from "../contract/internal/host.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import { TRIES_MAX } from "../sandbox/limits.ts";
import { openEgress } from "../sandbox/network/private-egress.ts";
import type { Runtimes } from "../sandbox/runtime/runtimes.ts";
import type { BaseImages } from "./base-images.ts";
import type { BuildContext } from "./build-context.ts";
import type { BuildLog } from "./build-log.ts";
import type { BuiltinImages } from "./build-options.ts";
import { BuildSandbox, type SandboxSource } from "./build-sandbox.ts";
import type { Layer, Layers } from "./layers.ts";
import { pause } from "./pause.ts";
import type { BuildResults } from "./results.ts";
import type { UploadedFiles } from "./steps.ts";

/** A sandbox of a build that the machine has no room for is tried so often, with pauses that double from this one. */
const BUILD_SANDBOX_TRIES_MAX = 6;
const BUILD_SANDBOX_RETRY_MS = 1_000;

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
  /** Fault 422 when an image has something else than folders where sandboxes have their own. */
  demandMountPoints(name: string, guest: string): void;
  /** Of a disk, all that was written to it, or what is in a folder of it. */
  add(name: string, made: { parent: string | null; disk: string; folder?: string; signal: AbortSignal }): Promise<void>;
  remove(name: string): Promise<void>;
  /** It is not collected until it is let go. */
  hold(name: string): Disposable;
}

export interface BuildParts {
  /** What fetches images. */
  bases: Pick<BaseImages, "fetch" | "collect">;
  /** What makes those of templates that come with Sandlot. */
  builtins: BuiltinImages;
  bounds: BuildBounds;
  sandboxes: SandboxSource;
  walls: Runtimes;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  images: BuildImages;
  layers: Layers;
  results: BuildResults;
  files: UploadedFiles;
}

/** What a build begins with. */
export interface Base {
  image: string;
  /** The disk of a snapshot, which has more than its image. */
  disk: Pick<Layer, "folder"> | undefined;
  context: BuildContext;
  key: string;
}

/** How far a build has come: `key` names all that led here, `diskKey` the layer that has all of its disk. */
export interface Progress {
  context: BuildContext;
  key: string;
  diskKey: string | undefined;
  /** In which the last steps were run. */
  sandbox: BuildSandbox | undefined;
}

export class BuildJob {
  /** Where it is, in the words of an outcome. */
  at = "base";

  constructor(
    readonly parts: BuildParts,
    readonly request: BuildRequest,
    readonly log: BuildLog,
    readonly signal: AbortSignal,
  ) {}

  /** Something of it is to be made whatever there is. */
  get isForced(): boolean {
    return this.request.force || this.request.steps.some(({ force }) => force);
  }

  say(level: "debug" | "info" | "warn", message: string): void {
    this.log.say(level, this.at, message);
  }

  /** Tried again where a client would be told to come again: nobody waits for a build as for a create. */
  async start(
    request: Omit<CreateSandbox, "accessTokens">,
    make: (opened: CreateSandbox) => Promise<string | CreatedSandbox>,
  ): Promise<BuildSandbox> {
    for (let tries = 1; ; tries++) {
      try {
        return await BuildSandbox.of(this.parts.sandboxes, make, request, this.signal);
      } catch (cause) {
        const { status, message } = Fault.from(cause);
        // Room may come; what nobody understands is as likely to come again.
        const triesMax = status === 503 ? BUILD_SANDBOX_TRIES_MAX : status === 500 ? TRIES_MAX : 1;
        if (this.signal.aborted || tries >= triesMax) throw cause;
        this.say("debug", `A sandbox could not be started, which is tried again: ${message}`);
        await pause(BUILD_SANDBOX_RETRY_MS * 2 ** (tries - 1), this.signal);
      }
    }
  }

  /** Of all its sandboxes in which steps and start commands run. */
  get egress(): Egress {
    return openEgress(this.request.privateRanges);
  }

  kind(image: string, { user, workdir }: BuildContext): SandboxKind {
    const { templateId, cpuCount, memoryMB, diskSizeMB, wall } = this.request;
    const kind = { templateId, image, cpuCount, memoryMB, diskSizeMB, defaultUser: user, defaultWorkdir: workdir };
    return wall === undefined ? kind : { ...kind, wall };
  }
}
