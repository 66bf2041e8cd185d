import type { Egress, LookedUp, RuleAnswer } from "../egress.ts";
import type { RuntimeName } from "../runtime-name.ts";
import type { LogLine } from "../sandbox-log.ts";

export type { Egress, EgressPolicy, LookedUp, RuleAnswer } from "../egress.ts";

/**
 * One machine that creates, runs and destroys sandboxes: with `VolumeContent`, the only interface from the rest of the
 * project into `src/host`. All privileged work on sandboxes happens behind it; nothing behind it knows teams, keys or
 * HTTP clients.
 *
 * It can be a network call, so that the machine need not be the one that control runs on:
 * - Arguments, results and events survive JSON unchanged: no closures, signals, maps or sets.
 * - Every method returns a promise. Calls may be concurrent. Errors are Faults; their cause travels as text.
 * - Events are one-way; a reply is a separate call.
 * - Events arrive in order, and an event that precedes a call's result arrives before that result. So a caller that
 *   gets the success of a resume already knows where the sandbox can be reached.
 * - Nothing here is needed for every request to a sandbox: `reachable` and `unreachable` say where sandboxes are, and
 *   listeners keep a table of that.
 *
 * Tests hold every host, and control, to this through a wrapper that turns all of it into JSON
 * (src/host/testing/serialised-host.ts).
 */
export interface Host {
  /**
   * Sends events to this listener from now on, beginning with everything that can be reached (`inventory`). It replaces
   * the previous listener, as a new connection replaces a lost one. It must not throw.
   */
  events(listener: (event: HostEvent) => void): void;

  /**
   * Creates a sandbox. Resolves when its guest has responded and `reachable` has been sent. The host chooses the id,
   * because the sandbox may come from the ready pool. Fault 503 when the machine is out of capacity, 404 when the image
   * is not on this machine.
   */
  create(request: CreateSandbox): Promise<CreatedSandbox>;

  /**
   * Writes a running sandbox into the checkpoint `name` and ends it. Resolves when the checkpoint is durable and no
   * process of the sandbox is left. Its other resources are freed right after, and later calls for it wait for that.
   * When it throws, the sandbox keeps running as before and there is no checkpoint: Fault 422 when some state cannot be
   * checkpointed (the message names the process and the reason), 507 when the disk is full, 404 when it does not run.
   * It is `unreachable` from the start of the call, and `reachable` again before it throws.
   */
  pause(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /**
   * Restores a sandbox from a checkpoint, with the same id and the same inner address. It is `reachable` before this
   * resolves. Resolves when its guest has responded. The checkpoint stays until `removeCheckpoint`, so that a later
   * failure loses nothing. Fault 422 when the checkpoint does not fit this machine (the message says what differs, and
   * that `memory: false` starts from its disk alone), 503 when the machine is out of capacity, 404 when the checkpoint
   * does not exist.
   */
  resume(request: ResumeSandbox): Promise<void>;

  /**
   * Like `pause`, but the sandbox continues after a short freeze. Any number of sandboxes can be created from the
   * checkpoint.
   */
  snapshot(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /** Idempotent; an unknown name is success. Sandboxes created from it are not affected. */
  removeCheckpoint(name: string): Promise<void>;

  /**
   * Ends a sandbox and removes its resources. It is `unreachable` from the start of the call. Idempotent; an unknown id
   * is success.
   */
  destroy(id: string): Promise<void>;

  /**
   * Changes the egress rules of a running sandbox. Resolves when they hold for all traffic, including open connections.
   * Until then each packet meets either the old or the new rules as a whole. Fault 404 when it does not run.
   */
  setEgress(id: string, egress: Egress): Promise<void>;

  /**
   * Replies to `rule-requested`. The host stores no value: it asks for each request anew. Idempotent; an unknown
   * question is success, because the request may have ended or timed out meanwhile.
   */
  answerRule(question: string, answer: RuleAnswer): Promise<void>;

  /**
   * Resolves a host name, or takes an IPv4 address, and says which addresses are closed to sandboxes with these private
   * ranges. Empty: it does not resolve, or the name server does not respond.
   */
  lookUp(host: string, privateRanges: readonly string[]): Promise<LookedUp[]>;

  /**
   * A port at the `host` of the sandbox's endpoint that leads to a service on `port`, including one bound to a loopback
   * address; undefined if there is none, or the sandbox does not run.
   */
  forward(id: string, port: number): Promise<number | undefined>;

  /**
   * Adopts resources after a restart: keeps what is named, removes the rest, and returns what exists. A sandbox whose
   * pause was interrupted keeps running. Everything kept is `reachable` before this resolves.
   */
  adopt(keep: Inventory): Promise<Inventory>;

  /**
   * Asks for the sandbox's log after this position; null: from its beginning. It replies to `log-waits`, and
   * acknowledges a `log`, which will not be sent again. The host sends one `log` at a time and buffers no more than
   * that. Without any reply it disconnects from the guest, which keeps its lines, and sends `log-waits` again.
   */
  requestLog(id: string, after: string | null): Promise<void>;

  /** Refuses the log for now: the last `log` was not kept. The host sends `log-waits` later. */
  deferLog(id: string): Promise<void>;

  /** Current usage of those of `ids` that run, by id. Measuring does not affect them. */
  measure(ids: readonly string[]): Promise<Record<string, Usage>>;
  /** Processor time only, in milliseconds; much cheaper than `measure`. */
  processorTimes(ids: readonly string[]): Promise<Record<string, number>>;

  /**
   * Builds an image from another one, step by step, with a checkpoint of its start command's processes if it has one.
   * Resolves when the build is over; a failed build is not a Fault. Its log is sent as `build-log`. A failed build
   * leaves only layers, which the next build may reuse. Builds do not survive the server: the next start does not
   * continue them.
   */
  build(request: BuildRequest): Promise<BuildOutcome>;

  /**
   * Ends a build: it resolves as failed, with this reason. Resolves when no process of the build is left. Idempotent;
   * an unknown id is success.
   */
  cancelBuild(id: string, reason: string): Promise<void>;

  /**
   * Writes the checkpoint `name` of a new sandbox in which this start command has become ready. For a build whose own
   * checkpoint does not fit this machine any more. Faults as of `pause`.
   */
  prepareStart(request: PrepareStart): Promise<void>;

  /**
   * Removes images and layers that are neither named nor used by a current sandbox or build. Recently used layers stay.
   * Returns what is left.
   */
  collectImages(keep: readonly string[]): Promise<StoredImages>;

  /** Removes all layers of an owner, who has no build under way. Idempotent; an unknown owner is success. */
  removeLayers(owner: string): Promise<void>;

  /**
   * Creates an empty volume of this size. Idempotent. Resolves when it is durable. Fault 507 when the machine has no
   * room for it. `VolumeContent` gives access to the content, because bytes do not pass through this interface.
   */
  createVolume(name: string, sizeMB: number): Promise<void>;

  /** Removes a volume that no sandbox uses, with its content. Idempotent; an unknown name is success. */
  removeVolume(name: string): Promise<void>;

  /** Sets the minimum number of sandboxes in the ready pool for each of these kinds. Replaces the previous call. */
  keepReady(kept: readonly KeptReady[]): Promise<void>;

  /** Stops background work. Sandboxes that were handed out keep running. */
  close(): Promise<void>;
}

/** The common properties of all sandboxes of one template build. */
export interface SandboxKind {
  templateId: string;
  /** Name of a root filesystem on this machine. */
  image: string;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  defaultUser: string;
  defaultWorkdir: string;
  /** The isolation runtime; absent: the machine's default. */
  wall?: RuntimeName;
  /** The kernel may merge equal pages of this sandbox and of all others with this mark. Only crun does. */
  sharesMemory?: true;
}

/** Ready pool for creates with this kind and checkpoint. */
export interface KeptReady {
  kind: SandboxKind;
  /** 0 is the same as not being listed. */
  count: number;
  checkpoint: string | null;
}

export interface CreateSandbox {
  kind: SandboxKind;
  /** Start as a copy of this checkpoint: with its memory if it has any, else from its disk. */
  checkpoint?: string;
  /**
   * The command that runs in the memory of the checkpoint. Without a checkpoint, or if it is missing or its memory does
   * not fit this machine, the sandbox boots from its image and runs this command until it is ready.
   */
  start?: StartCommand;
  envVars: Record<string, string>;
  /** Access tokens of the runtime; empty: it requires none. */
  accessTokens: string[];
  egress: Egress;
  /**
   * The owner of the request. Kinds requested by several owners, or repeatedly by one, are kept in the ready pool as
   * far as there is room; each owner has a share of it. Absent: the request does not count as demand.
   */
  owner?: string;
  /** Absent: none. A checkpoint with memory has the volumes it was written with, and takes no others: Fault 422. */
  volumes?: readonly VolumeMount[];
}

export interface VolumeMount {
  /** Its name on the machine. */
  volume: string;
  /** Absolute and normalised. Missing folders are created. */
  path: string;
}

/** A process that runs from the start of every sandbox of a template. */
export interface StartCommand {
  /** A shell command, run as the default user in the default working directory. */
  command: string;
  /** A shell command that succeeds once the sandbox is ready; null waits for a fixed time. */
  ready: string | null;
}

export interface BuildRequest {
  id: string;
  templateId: string;
  /** Layers are reused among builds of one owner. */
  owner: string;
  from: BuildOrigin;
  steps: readonly BuildStep[];
  start: StartCommand | null;
  /** Reuse no layer at all. */
  force: boolean;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  /** For all sandboxes of the build and for the checkpoint, as in a SandboxKind. */
  wall?: RuntimeName;
  /** For the sandboxes of the build, as in an EgressPolicy. */
  privateRanges?: readonly string[];
}

export type BuildOrigin =
  | { kind: "registry"; image: string; credentials: RegistryCredentials | null }
  /** A built-in template, by name. Its root filesystem is made on this machine unless it exists. */
  | { kind: "builtin"; name: string }
  /** Another build, with the user, folder and variables of its sandboxes. */
  | { kind: "template"; from: SandboxKind; checkpoint: string | null; envVars: Record<string, string> };

export type RegistryCredentials =
  | { type: "registry"; username: string; password: string }
  | { type: "aws"; accessKeyId: string; secretAccessKey: string; region: string }
  | { type: "gcp"; serviceAccountJson: string };

/**
 * In values of variables, paths and user names, `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` (also `-`, `+`,
 * `:?` and `?`, as in shells, with words expanded alike) expand to the variables before the step. Nothing else is
 * expanded, and `\$` is a dollar.
 */
export type BuildStep = { force: boolean } & (
  | { type: "run"; command: string; user: string | null }
  /** `files` names the uploaded archive among the blobs. */
  | { type: "copy"; files: string; source: string; target: string; owner: string | null; mode: string | null }
  | { type: "env"; variables: readonly (readonly [name: string, value: string])[] }
  | { type: "workdir"; path: string }
  | { type: "user"; name: string; sudo: boolean }
);

export type BuildOutcome =
  | {
      isReady: true;
      /** The root filesystem of its sandboxes. */
      image: string;
      defaultUser: string;
      defaultWorkdir: string;
      envVars: Record<string, string>;
      /**
       * Checkpoint of the processes that its start command left running; null: none, or they cannot be checkpointed.
       */
      checkpoint: string | null;
    }
  | {
      isReady: false;
      /** `base`, `finalize`, or the number of the step, from 1. */
      step: string;
      message: string;
    };

export interface BuildLogEntry {
  /** Milliseconds since 1970. */
  at: number;
  level: "debug" | "info" | "warn" | "error";
  message: string;
  /** As in a failed BuildOutcome; null: not of a step. */
  step: string | null;
}

export interface PrepareStart {
  /** Name of the checkpoint. */
  name: string;
  kind: SandboxKind;
  envVars: Record<string, string>;
  start: StartCommand;
  /** As in a BuildRequest. */
  privateRanges?: readonly string[];
}

export interface StoredImages {
  images: readonly { name: string; bytes: number }[];
  /** Size of all layers kept for later builds. */
  layerBytes: number;
}

export interface ResumeSandbox extends CreateSandbox {
  id: string;
  checkpoint: string;
  /** False: boot from the checkpoint's disk and ignore its memory. */
  memory: boolean;
}

export interface CheckpointOptions {
  /** False: files only; a sandbox from it boots. */
  memory: boolean;
  /** True: needed only briefly; it need not survive this server. */
  temporary?: boolean;
  /** The owner of the sandbox: many checkpoints of one owner must not delay those of others. */
  owner?: string;
}

export type HostEvent =
  /** Everything that can be reached; nothing else can. */
  | { kind: "inventory"; reachable: readonly Reachable[] }
  | ({ kind: "reachable" } & Reachable)
  | { kind: "unreachable"; id: string }
  /**
   * It ended without `destroy`: its first process died, or the host ended it for what it did to the machine. Sent once,
   * after `unreachable`. `reason` is for its owner.
   */
  | { kind: "lost"; id: string; reason: string }
  /** For the log of a sandbox: an operation failed in a way that no program inside can see. Rate-limited. */
  | { kind: "trouble"; id: string; message: string }
  /**
   * A request of the sandbox `id` to `host` needs the headers of its rule: reply with `answerRule`. `pattern` is the
   * one of the policy's `ruleNames` that matched: an exact name wins over the longest wildcard.
   */
  | { kind: "rule-requested"; question: string; id: string; pattern: string; host: string }
  /** Sent regularly while less memory than the reserve is available, and once when there is enough again. */
  | MemoryEvent
  /** The log of a build, in order, and complete before the build's outcome. */
  | { kind: "build-log"; id: string; entries: readonly BuildLogEntry[] }
  | LogEvent;

export interface MemoryEvent {
  kind: "memory";
  /** `short`: the host still gives up ready sandboxes. `exhausted`: it has none left. */
  state: "enough" | "short" | "exhausted";
  availableBytes: number;
  reserveBytes: number;
}

export type LogEvent =
  /** The sandbox's log may have more lines: reply with `requestLog` and a position, or with `deferLog`. */
  | { kind: "log-waits"; id: string }
  /**
   * Lines in order, and the position after them; null for a line of the host itself. Reply with `requestLog` and that
   * position, or with `deferLog`.
   */
  | { kind: "log"; id: string; lines: readonly LogLine[]; position: string | null };

/** A sandbox that was handed out and can be reached. */
export interface Reachable {
  id: string;
  endpoint: Endpoint;
}

export interface Usage {
  /** Processor time of all its processes since an arbitrary moment; only differences are meaningful. */
  cpuUsedMs: number;
  memUsed: number;
  memCache: number;
  diskUsed: number;
  diskTotal: number;
}

/** Ids of sandboxes and names of checkpoints. */
export interface Inventory {
  sandboxes: readonly string[];
  checkpoints: readonly string[];
}

export interface CreatedSandbox {
  id: string;
  /** How it came about: taken from the ready pool, booted, or restored from a checkpoint. */
  origin: "ready" | "boot" | "restore";
  /** Why the memory of the checkpoint was ignored and its start command run again, if so. */
  mismatch?: string;
}

/** Address of a sandbox, for listeners to the host's events. */
export interface Endpoint {
  /** A name or an IPv4 address. */
  host: string;
  /** Port of the sandbox's runtime, at `host`. */
  runtimePort: number;
  /**
   * True: `host` belongs to the sandbox, and its ports are the sandbox's ports. False: `host` is shared, as a relay on
   * another machine would be, and `forward` must be called for every port but the runtime's.
   */
  ownPorts: boolean;
}
