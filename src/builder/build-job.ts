/** State that all phases of one build share: its parts, its request and its current step. */
import type { Blobs } from "../blobs/blobs.ts";
import { Fault } from "../contract/fault.ts";
import type { BuildRequest, Egress, SandboxKind } from "../contract/internal/host.ts";
import type { Images } from "../images/images.ts";
import type { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import type { Checkpointing } from "../sandbox/checkpointing.ts";
import { openEgress } from "../sandbox/network/private-egress.ts";
import type { Runtimes } from "../sandbox/runtime/runtimes.ts";
import { abortableSleep } from "./abortable-sleep.ts";
import type { BaseImages } from "./base-images.ts";
import type { BuildContext } from "./build-context.ts";
import type { BuildLog } from "./build-log.ts";
import { BuildSandbox, type BuildSandboxRequest, type SandboxSource } from "./build-sandbox.ts";
import type { Layer, Layers } from "./layers.ts";
import type { BuildResults } from "./results.ts";

/** Retries when the host has no room for a build's sandbox; the delay doubles from the first one. */
const BUILD_SANDBOX_TRIES_MAX = 6;
/** Tries after a failure without a specific reason. */
const BUILD_SANDBOX_UNKNOWN_TRIES_MAX = 2;
const BUILD_SANDBOX_RETRY_MS = 1_000;

export interface BuildBounds {
  maxMs: number;
  readyMaxMs: number;
  /** Wait after a start command that has no ready command. */
  readyDefaultMs: number;
  logMaxBytes: number;
  /** Total size of cached layers, and how long an unused one is kept. */
  layersMaxBytes: number;
  layersKeptMs: number;
}

export interface BuiltinImages {
  /** Makes the image and returns its name. Fault 404: not a built-in template. */
  make(template: string, signal: AbortSignal, say: (message: string) => void): Promise<string>;
  /** Image names of all built-in templates and of their parents, whether they exist yet or not. */
  current(): readonly string[];
}

export interface BuildParts {
  bases: Pick<BaseImages, "fetch" | "collect">;
  builtins: BuiltinImages;
  bounds: BuildBounds;
  sandboxes: SandboxSource;
  runtimes: Runtimes;
  checkpoints: Checkpoints;
  checkpointing: Checkpointing;
  images: Images;
  layers: Layers;
  results: BuildResults;
  files: Pick<Blobs, "open">;
}

/** What the build starts from. */
export interface Base {
  image: string;
  /** The disk of a snapshot, which holds more than its image. */
  disk: Pick<Layer, "folder"> | undefined;
  context: BuildContext;
  key: string;
}

/** Progress of a build: `key` identifies all steps so far, `diskKey` the layer with its whole disk. */
export interface Progress {
  context: BuildContext;
  key: string;
  diskKey: string | undefined;
  /** The sandbox of the last steps. */
  sandbox: BuildSandbox | undefined;
}

export class BuildJob {
  /** The current step, as the outcome names it. */
  at = "base";

  constructor(
    readonly parts: BuildParts,
    readonly request: BuildRequest,
    readonly log: BuildLog,
    readonly signal: AbortSignal,
  ) {}

  /** Whether the client requests to rebuild anything regardless of the cache. */
  get isForced(): boolean {
    return this.request.force || this.request.steps.some(({ force }) => force);
  }

  say(level: "debug" | "info" | "warn", message: string): void {
    this.log.say(level, this.at, message);
  }

  /** Retries where a create would return 503 or 500, because a build can wait longer than a create. */
  async start(request: BuildSandboxRequest): Promise<BuildSandbox> {
    for (let tries = 1; ; tries++) {
      try {
        return await BuildSandbox.open(this.parts.sandboxes, request, this.signal);
      } catch (cause) {
        const { status, message } = Fault.from(cause);
        // 503: room may become free. 500: an unexplained failure rarely goes away, so fewer retries.
        const triesMax =
          status === 503 ? BUILD_SANDBOX_TRIES_MAX : status === 500 ? BUILD_SANDBOX_UNKNOWN_TRIES_MAX : 1;
        if (this.signal.aborted || tries >= triesMax) throw cause;
        this.say("debug", `A sandbox could not be started, which is tried again: ${message}`);
        await abortableSleep(BUILD_SANDBOX_RETRY_MS * 2 ** (tries - 1), this.signal);
      }
    }
  }

  /** Egress rules of the sandboxes in which steps and start commands run. */
  get egress(): Egress {
    return openEgress(this.request.privateRanges);
  }

  kind(image: string, { user, workdir }: BuildContext): SandboxKind {
    const { templateId, cpuCount, memoryMB, diskSizeMB, wall } = this.request;
    const kind = { templateId, image, cpuCount, memoryMB, diskSizeMB, defaultUser: user, defaultWorkdir: workdir };
    return wall === undefined ? kind : { ...kind, wall };
  }
}
