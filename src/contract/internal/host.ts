import type { Egress, LookedUp } from "../egress.ts";
import type { LogLine } from "../sandbox-log.ts";
import type { Wall } from "../wall.ts";

export type { Egress, EgressPolicy, LookedUp } from "../egress.ts";
export type { Wall } from "../wall.ts";

/**
 * One machine that makes, runs and destroys sandboxes: the only door from the rest of the project into `src/host`.
 * Everything that needs privileges happens behind this interface; nothing behind it knows of teams, keys or HTTP
 * clients.
 *
 * The door can be a network call, so that the machine need not be the one that control runs on:
 * - Arguments, results and events are what JSON carries, unchanged. No closures, signals, maps or sets.
 * - Every method is a call with a promise. All may be made concurrently. Errors are Faults; their cause travels as
 *   text.
 * - What the host has to say by itself is an event, and nobody answers an event: an answer is a call of its own.
 * - Events come in their order, and an event that preceded a call's result is told before that result. So who has heard
 *   of a resume's success has heard where the sandbox is reached.
 * - Nothing that is needed for every request of a sandbox's traffic is asked here: `reachable` and `unreachable` say
 *   where sandboxes are, and whoever needs it keeps a table of that.
 *
 * Tests hold every host, and control, to this through a wrapper that turns all of it into JSON
 * (testing/serialised-host.ts).
 */
export interface Host {
  /**
   * From now on this listener is told what happens, first of all that can be reached (`inventory`). It replaces the one
   * before, as a connection that was lost is replaced by the next. It must not throw.
   */
  events(listener: (event: HostEvent) => void): void;

  /**
   * A running sandbox whose guest has answered; it has been told `reachable` by then. The host chooses the id, because
   * a sandbox may have been booted before anybody asked for it. Fault 503 when the machine has no room, 404 when the
   * image is not on this machine.
   */
  create(request: CreateSandbox): Promise<CreatedSandbox>;

  /**
   * Writes a running sandbox into the checkpoint `name` and ends it. Resolves when the checkpoint is durable and no
   * process of the sandbox is left; what else it had goes right after, and whatever is asked of it next waits for that.
   * When it throws, the sandbox runs on as if nothing had been asked and there is no checkpoint: Fault 422 when
   * something in the sandbox cannot be kept (the message names the process and the reason), 507 when the disk is full,
   * 404 when it does not run. It is `unreachable` from the moment of the call, and `reachable` again before that
   * throws.
   */
  pause(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /**
   * The same sandbox again, from a checkpoint: same id, same address inside. It is `reachable` before this resolves.
   * Resolves when its guest has answered. The checkpoint stays until `removeCheckpoint`, so that a failure at any later
   * step loses nothing. Fault 422 when the checkpoint does not fit this machine (the message says what differs, and
   * that `memory: false` starts from its disk alone), 503 when the machine has no room, 404 when there is no such
   * checkpoint.
   */
  resume(request: ResumeSandbox): Promise<void>;

  /**
   * Like `pause`, but the sandbox goes on after a short stop. Any number of sandboxes can be created from the
   * checkpoint.
   */
  snapshot(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /** Idempotent; an unknown name is success. Sandboxes that were made from it are not touched. */
  removeCheckpoint(name: string): Promise<void>;

  /**
   * Ends a sandbox and removes all it had. It is `unreachable` from the moment of the call. Idempotent; an
   * unknown id is success.
   */
  destroy(id: string): Promise<void>;

  /**
   * From now on this may leave a running sandbox. Resolves when it holds for everything, connections that were open
   * before included. Until then each packet meets the old rules or the new ones, whole. Fault 404 when it does not run.
   */
  setEgress(id: string, egress: Egress): Promise<void>;

  /**
   * Where a host name leads, or an IPv4 address itself, and which of these addresses are closed to sandboxes with these
   * private ranges. Empty: it leads nowhere, or the name server does not answer.
   */
  lookUp(host: string, privateRanges: readonly string[]): Promise<LookedUp[]>;

  /**
   * A port at the `host` of the sandbox's endpoint that leads to a service on `port`, also to one that is bound to a
   * loopback address; undefined if there is none, or the sandbox does not run.
   */
  forward(id: string, port: number): Promise<number | undefined>;

  /**
   * Takes back what there is after a restart: keeps what is named, removes the rest. Answers what of it there is. A
   * sandbox whose pause was interrupted runs on. All that is kept is told `reachable` before this resolves.
   */
  adopt(keep: Inventory): Promise<Inventory>;

  /**
   * Tell what the sandbox's log has after this position; null is its beginning. It answers `log-waits`, and it is the
   * receipt for a `log`, of which nothing will be asked again. The host tells one `log` at a time and keeps no more in
   * memory than that. Without any answer it hangs up on the guest, which keeps its lines, and says `log-waits` again.
   */
  hearLog(id: string, after: string | null): Promise<void>;

  /** Nothing of its log can be taken just now: what was told last is not kept. The host says `log-waits` later. */
  putOffLog(id: string): Promise<void>;

  /** What those of `ids` that run use at this moment, by id. They do not notice. */
  measure(ids: readonly string[]): Promise<Record<string, Usage>>;
  /** Processor time alone, in milliseconds: a fraction of the work. */
  processorTimes(ids: readonly string[]): Promise<Record<string, number>>;

  /**
   * Makes an image from another one, step by step, and if it has a start command a checkpoint of what that started.
   * Resolves when the build is over, whichever way; a build that fails is no Fault. What happens meanwhile is told as
   * `build-log`. Nothing of a failed build is left but layers that the next one may begin with. Builds that were
   * under way when the server ended are not gone on with: nobody adopts them.
   */
  build(request: BuildRequest): Promise<BuildOutcome>;

  /**
   * Ends a build: it resolves as failed, with this reason. Resolves when nothing of it runs any more. Idempotent; an
   * unknown id is success.
   */
  cancelBuild(id: string, reason: string): Promise<void>;

  /**
   * Writes the checkpoint `name` of a new sandbox in which this start command has become ready; for a build whose own
   * checkpoint does not fit this machine any more. Faults as of `pause`.
   */
  prepareStart(request: PrepareStart): Promise<void>;

  /**
   * Removes images and layers that nobody needs: neither what is named, nor a sandbox or build of this moment. Layers
   * that were used lately stay. Answers what is left, for whoever wants to show it.
   */
  collectImages(keep: readonly string[]): Promise<StoredImages>;

  /**
   * A new, empty volume that holds so much and no more. Idempotent. Resolves when it is durable. Fault 507 when the
   * machine has no room for it. What is in a volume is reached through `VolumeContent`, for bytes do not pass here.
   */
  createVolume(name: string, sizeMB: number): Promise<void>;

  /** Removes a volume that no sandbox has, and all that is in it. Idempotent; an unknown name is success. */
  removeVolume(name: string): Promise<void>;

  /**
   * Keeps at least so many sandboxes ready for creates that ask for just this, whatever was asked for. Replaces the
   * previous request.
   */
  keepReady(kept: readonly KeptReady[]): Promise<void>;

  /** Stops background work. Sandboxes that were handed out run on. */
  close(): Promise<void>;
}

/** What all sandboxes of one template build have in common. */
export interface SandboxKind {
  templateId: string;
  /** Name of a root filesystem on this machine. */
  image: string;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  defaultUser: string;
  defaultWorkdir: string;
  /** What it is kept behind; absent: what the machine takes for those of which nobody said anything. */
  wall?: Wall;
}

/** What is kept ready for a create with this kind and checkpoint. */
export interface KeptReady {
  kind: SandboxKind;
  /** So many; none is as if it were not named. */
  count: number;
  checkpoint: string | null;
}

export interface CreateSandbox {
  kind: SandboxKind;
  /** Start as a copy of what is in this checkpoint: with its memory if it has any, else from its disk. */
  checkpoint?: string;
  /**
   * What runs in the memory of the checkpoint. Without a checkpoint, or where there is none of that name or its memory
   * does not fit this machine, the sandbox boots from its image and runs this instead, until it is ready.
   */
  start?: StartCommand;
  envVars: Record<string, string>;
  /** Tokens that open the runtime; empty means that it answers without one. */
  accessTokens: string[];
  egress: Egress;
  /**
   * Who asks. What several ask for, or one more than once, is kept ready for the next as far as there is room, of which
   * each owner has a share. Absent: it is no reason to keep any.
   */
  owner?: string;
  /** Absent: none. A checkpoint with memory has the ones it was written with, and takes no others: Fault 422. */
  volumes?: readonly VolumeMount[];
}

export interface VolumeMount {
  /** Its name on the machine. */
  volume: string;
  /** Absolute and clean. What is missing of the folder is made. */
  path: string;
}

/** A process that runs from the start of every sandbox of a template. */
export interface StartCommand {
  /** A line for the shell, run as the default user in the default working directory. */
  command: string;
  /** A line for the shell that succeeds once the sandbox is ready; null waits for a fixed time. */
  ready: string | null;
}

export interface BuildRequest {
  id: string;
  templateId: string;
  /** Layers are reused within builds of one owner. */
  owner: string;
  from: BuildOrigin;
  steps: readonly BuildStep[];
  start: StartCommand | null;
  /** Reuse no layer at all. */
  force: boolean;
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
  /** Of all sandboxes in which it is made, and of the checkpoint, as in a SandboxKind. */
  wall?: Wall;
  /** Of the sandboxes in which it is made, as in an EgressPolicy. */
  privateRanges?: readonly string[];
}

export type BuildOrigin =
  | { kind: "registry"; image: string; credentials: RegistryCredentials | null }
  /** One that comes with Sandlot, by its name. Its root filesystem is made on this machine unless it is there. */
  | { kind: "builtin"; name: string }
  /** Another build, with the user, folder and variables that its sandboxes have. */
  | { kind: "template"; from: SandboxKind; checkpoint: string | null; envVars: Record<string, string> };

export type RegistryCredentials =
  | { type: "registry"; username: string; password: string }
  | { type: "aws"; accessKeyId: string; secretAccessKey: string; region: string }
  | { type: "gcp"; serviceAccountJson: string };

/**
 * In values of variables, paths and names of users, `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` (also `-`,
 * `+`, `:?` and `?`, as shells have them, words expanded alike) mean what the variables are before the step. Nothing
 * else is expanded, and `\$` is a dollar.
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
      /** What sandboxes of it start from. */
      image: string;
      defaultUser: string;
      defaultWorkdir: string;
      envVars: Record<string, string>;
      /** Of the processes that its start command left running; null: none, or they cannot be kept. */
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
  /** As in a BuildOutcome that failed; null: of no step. */
  step: string | null;
}

export interface PrepareStart {
  /** Of the checkpoint. */
  name: string;
  kind: SandboxKind;
  envVars: Record<string, string>;
  start: StartCommand;
  /** As in a BuildRequest. */
  privateRanges?: readonly string[];
}

export interface StoredImages {
  images: readonly { name: string; bytes: number }[];
  /** Of all layers that are kept for the next builds. */
  layerBytes: number;
}

export interface ResumeSandbox extends CreateSandbox {
  id: string;
  checkpoint: string;
  /** False: boot from the checkpoint's disk and leave its memory aside. */
  memory: boolean;
}

export interface CheckpointOptions {
  /** False: files only; what starts from it boots. */
  memory: boolean;
  /** True: it is only needed for a moment, and need not outlive this server. */
  temporary?: boolean;
  /** Whose sandbox it is: one who wants many written at once keeps nobody else waiting behind them all. */
  owner?: string;
}

export type HostEvent =
  /** All that can be reached; what is not named cannot. */
  | { kind: "inventory"; reachable: readonly Reachable[] }
  | ({ kind: "reachable" } & Reachable)
  | { kind: "unreachable"; id: string }
  /**
   * It ended without `destroy`: its first process died, or the host ended it for what it did to the machine. Told once,
   * after `unreachable`. `reason` is for those whose it was.
   */
  | { kind: "lost"; id: string; reason: string }
  /** For the log of a sandbox: what it does fails, and no program inside is told why. Bounded in rate. */
  | { kind: "trouble"; id: string; message: string }
  /** What a build says, in its order and all of it before the build's outcome. */
  | { kind: "build-log"; id: string; entries: readonly BuildLogEntry[] }
  | LogEvent;

export type LogEvent =
  /** The sandbox's log may have more to tell: say from where with `hearLog`, or `putOffLog`. */
  | { kind: "log-waits"; id: string }
  /**
   * Lines in their order, and the position behind them: null for a line that is the host's own. To be answered with
   * `hearLog` and that position, or with `putOffLog`.
   */
  | { kind: "log"; id: string; lines: readonly LogLine[]; position: string | null };

/** A sandbox that was handed out and can be reached. */
export interface Reachable {
  id: string;
  endpoint: Endpoint;
}

export interface Usage {
  /** Processor time of all its processes since some moment in the past; only differences mean something. */
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
  /** `i` and 20 of [a-z0-9]. */
  id: string;
  /** Why the memory of the checkpoint was left aside and its start command run anew, if so. */
  mismatch?: string;
}

/** Where a sandbox is reached, for whoever listens to the host's events. */
export interface Endpoint {
  /** A name or an IPv4 address. */
  host: string;
  /** The sandbox's runtime answers there, at `host`. */
  runtimePort: number;
  /**
   * True: `host` is the sandbox's own, and each of its ports is that port there. False: it stands for others, too, as a
   * relay on another machine would, and `forward` must be asked for every port but the runtime's.
   */
  ownPorts: boolean;
}
