/**
 * The isolation runtime as the host sees it: it makes the processes of a sandbox, isolates them from the machine, and
 * writes and restores their memory. tests/functional/host/runtime-contract.test.ts holds crun and runsc to this
 * contract.
 *
 *   create → (the host plugs the network in) → start → checkpoint, any number of times → remove
 *   restore (calls the host to plug the network in) → checkpoint, any number of times → remove
 *
 * The server may be killed at any moment. Sandboxes continue without it, and so may a checkpoint or restore in
 * progress: the next server calls `recover` first, and `untilWritten` for each sandbox that it takes over.
 *
 * All methods may be called concurrently for different sandboxes. Errors are Faults. This folder never decides about
 * states, tenants or network rules.
 */
import type { IdRange } from "../../system/id-range.ts";
import type { UserLimit } from "../../system/user-limits.ts";

export interface Runtime {
  /**
   * Makes all namespaces and restrictions of a sandbox and stops before its first process runs. Throws Fault 422 when a
   * volume cannot be mounted at its path: a part of the path is a file, or a link that leads elsewhere.
   */
  create(sandbox: NewSandbox): Promise<CreatedContainer>;

  /** Lets the first process run, given the pid that `create` returned. Fails at once when that process has ended. */
  start(id: string, pid: number): Promise<void>;

  /**
   * Ends every process of the sandbox, even a frozen one, and removes its cgroup and the runtime's own state.
   * Idempotent; an unknown id is success. The host removes what it provided (root, folder, network). Resolves only when
   * no process is left. Throws `ProcessesRemain` when one has not ended within `withinMs`; it was killed and may still
   * end, so the caller retries.
   */
  remove(id: string, withinMs?: number): Promise<void>;

  /** Ids of all sandboxes that this runtime has a trace of, alive or not. */
  list(): Promise<string[]>;

  /** The size of a checkpoint of this sandbox, as far as it is known in advance. Throws Fault 422 above `maxBytes`. */
  imageBytes(cgroup: string, maxBytes: number): Promise<number>;

  /**
   * Throws Fault 422 when a checkpoint of this sandbox would clearly take long or fail; the message names the process
   * and the reason. Absent: the runtime has no such check.
   */
  requireCheckpointable?(cgroup: string): Promise<void>;

  /**
   * Stops all processes of a running sandbox, to write it. When this or a step of the stopped sandbox throws, the
   * sandbox keeps running: Fault 422 when it holds something that cannot be written, or more than the bounds allow (the
   * message names the process and the reason), 507 when the disk is full, 404 when the sandbox has ended, 503 when the
   * tool was killed from outside. After `FailedTry` the caller starts again once, and passes it as `earlier`.
   */
  checkpoint(request: CheckpointRequest, earlier?: FailedTry): Promise<StoppedSandbox>;

  /** Lets a sandbox run on after `checkpoint`, or after its cgroup was frozen. No-op for a running or ended one. */
  unfreeze(id: string, cgroup: string): Promise<void>;

  /**
   * Prepares a memory image for copies, before it has its digests: wipes memory that programs marked to be wiped on
   * fork, so that copies of one program do not share random seeds. Absent: the runtime cannot.
   */
  wipeForCopies?(images: string): Promise<void>;

  /** Facts to store beside a memory image, for `mismatch`. Plain data, specific to the runtime. */
  readonly imageFacts: ImageFacts;

  /** Why an image with these facts cannot be restored here; undefined when it can. */
  mismatch(written: ImageFacts): string | undefined;

  /** Whether a memory image with these files holds TCP connections. No packet may arrive until all are restored. */
  holdsConnections(files: readonly string[]): boolean;

  /** Files below this folder that processes in a memory image have open, or use as their working folder. */
  openFiles(images: string, folder: string): OpenFile[];

  /** Restores the sandbox of a memory image. Its first process is already running. */
  restore(request: RestoreRequest): Promise<RunningContainer>;

  /** Whether connections may be open and packets arrive during a checkpoint. */
  readonly keepsConnections: boolean;

  /** Whether processes inside are host processes, so that the guest's can get a higher priority. */
  readonly showsProcesses: boolean;

  /** Whether the runtime chooses the source address itself and ignores the one that the route names. */
  readonly choosesSource: boolean;

  /** Ends restores that a killed server left running, so that they make no more processes. */
  recover(): Promise<void>;

  /** Resolves when no checkpoint of this sandbox by a killed server is being written. */
  untilWritten(id: string): Promise<void>;

  /** To be called at the end of use. Sandboxes continue. */
  close?(): Promise<void>;
}

export interface SandboxSize {
  cpuCount: number;
  memoryMB: number;
  /** List of processors it may run on; undefined for all. */
  processors: string | undefined;
}

export interface NewSandbox {
  id: string;
  /** The sandbox's own folder; the runtime may keep files there, too. */
  folder: string;
  root: string;
  /** The path below the root of each hierarchy: the server's cgroup, then the sandbox's id. */
  cgroup: string;
  /** The host's user ids of its processes; the files of its root already have them. */
  ids: IdRange;
  size: SandboxSize;
  /** As in a SandboxKind. */
  sharesMemory?: boolean | undefined;
  hostname: string;
  /** Mounted into every sandbox; contains its first process. */
  guestFolder: string;
  /** Shown as /proc/meminfo and kept current by the guest; undefined shows the host's. */
  meminfoFile: string | undefined;
  /** A file shown inside as the kernel's boot id; the real one is the same in all sandboxes. */
  bootIdFile: string;
  /** A file with the secret of the control channel, readable for root inside. */
  controlSecretFile: string;
  /** Folders shared with other sandboxes: writable for all users inside, without devices and set-id bits. */
  volumes: readonly OutsideMount[];
  /** The sandbox has the disk of another one and needs its own identity. */
  copy: boolean;
  /** Maximum number of open files of a process; the server cannot grant more than it has. */
  openFilesMax: number;
  /** Limits for each user: processes, locked memory, pending signals and message queues. */
  userLimits: readonly UserLimit[];
}

export interface RunningContainer {
  /** Represents the sandbox on the host: it lives as long, and its network namespace is the sandbox's. */
  pid: number;
  /** The process whose root is the sandbox's root filesystem. */
  rootPid: number;
  /** Mounts below the sandbox's folder in the server's view that are no longer needed. */
  left?: readonly string[];
}

/** The network namespace exists and is empty; the host plugs it in. */
export interface CreatedContainer extends RunningContainer {
  /** The mounts from the host, to be passed again for checkpoint and restore. */
  mounts: OutsideMount[];
}

export interface OutsideMount {
  inside: string;
  outside: string;
}

export interface OpenFile {
  /** The path inside by which the file is found again. */
  path: string;
  /** The path that the process used, which may be another name of the file. */
  shownPath: string;
  /** Undefined: its size does not matter. */
  bytes: number | undefined;
}

export interface CheckpointRequest {
  id: string;
  pid: number;
  cgroup: string;
  folder: string;
  /** An empty folder for the memory image; the runtime opens it to the users that need it. */
  images: string;
  mounts: readonly OutsideMount[];
  /** As in a SandboxKind. The image does not depend on it. */
  sharesMemory?: boolean | undefined;
  bounds: ImageBounds;
}

/** A sandbox without a running process. The caller does its own work between these steps, which run in this order. */
export interface StoppedSandbox {
  /** Aborts when the runtime gives the checkpoint up. Its reason is the error for the client. */
  readonly givenUp: AbortSignal;
  write(): Promise<void>;
  /** Leaves the sandbox to its cgroup: frozen until `unfreeze`. */
  release(): Promise<void>;
  /** Lets the sandbox run on, after any of these steps. Idempotent. */
  undo(): Promise<void>;
}

/** A checkpoint failed for a reason that only a second try finds, or that it does not meet again. */
export class FailedTry extends Error {}

export interface ImageBounds {
  maxBytes: number;
  maxMs: number;
  /** Throws when the machine has no more room; called repeatedly while the image grows. */
  requireRoom(): void;
}

export interface RestoreRequest {
  id: string;
  cgroup: string;
  /** The ids of the new sandbox; the image may have been written with others. */
  ids: IdRange;
  size: SandboxSize;
  /** As in a SandboxKind. */
  sharesMemory?: boolean | undefined;
  folder: string;
  root: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** Some mounts are folders that other sandboxes use at the same time. */
  shared?: boolean;
  /** Open files that have grown since, by path inside, with their current sizes; absent: none. */
  grown?: ReadonlyMap<string, number>;
  /** Resolves when root, files and mounts exist; until then the runtime only prepares. */
  prepared: Promise<unknown>;
  /** Called when the namespace at this path exists and no socket does: sockets need an existing address. */
  plug(namespace: string): Promise<void>;
}

export type ImageFacts = Readonly<Record<string, unknown>>;
