/**
 * The wall around a sandbox, as the host sees it: what makes its processes, keeps them apart from the machine, writes
 * them down and makes them again. crun, with CRIU behind it, is one; others fit behind the same interface.
 * Every one is held to the promises here by tests/functional/host/runtime-contract.test.ts.
 *
 * The host brings what all walls need and none knows of: a mounted root, a folder for the sandbox, a name for its
 * cgroup, and a place in the network. What only one wall knows stays behind it: how the sandbox is described to it,
 * filters of system calls, the files of a memory image and what they mean, and how an image is kept from growing
 * without end.
 *
 * A sandbox's life here:
 *
 *   create → (the host plugs the network in) → start → checkpoint, any number of times → remove
 *   restore (the wall has the network plugged in on its way) → checkpoint, any number of times → remove
 *
 * The server may be killed at any moment. Sandboxes go on without it, and so may a checkpoint or a restore that was
 * under way: the next server calls `recover` before it looks at anything, and `untilWritten` for each sandbox that it
 * takes back.
 *
 * All methods may be called at the same time, for different sandboxes. Errors are Faults.
 */
import type { IdRange } from "../../system/id-range.ts";
import type { UserLimit } from "../../system/user-limits.ts";

export interface Runtime {
  /**
   * Makes all namespaces and walls of a sandbox and stops before its first process runs. Fault 422 when a volume cannot
   * be mounted where it was asked for: a part of the way is a file, or a link that leads elsewhere.
   */
  create(sandbox: NewSandbox): Promise<CreatedContainer>;

  /** Lets the first process, whose pid `create` has answered, run. Fails at once when that has ended meanwhile. */
  start(id: string, pid: number): Promise<void>;

  /**
   * Ends every process of the sandbox, also one that is frozen, and removes its cgroup and what the runtime kept of it.
   * Idempotent; an unknown id is success. What the host brought (root, folder, network) is left to the host. Resolves
   * only when no process of it is left: throws `Unended` when one has not ended within `withinMs`, which was told to
   * and may still end; the caller asks again.
   */
  remove(id: string, withinMs?: number): Promise<void>;

  /** Ids of all sandboxes that this runtime still has a trace of, alive or not. */
  list(): Promise<string[]>;

  /**
   * How much a checkpoint of this sandbox would write, as far as that can be known before. Fault 422 when that is more
   * than `maxBytes`.
   */
  imageBytes(cgroup: string, maxBytes: number): Promise<number>;

  /**
   * Fault 422 when it is plain that a checkpoint of this sandbox would take long, or could not be written; the message
   * names the process and the reason. Absent: nothing is plain here.
   */
  demandSoonWritten?(cgroup: string): Promise<void>;

  /**
   * Writes a running sandbox, which stands still from then on, frozen by its cgroup, until `letGo`.
   * When it throws, the sandbox runs on: Fault 422 when it holds something that cannot be written, or more than the
   * bounds allow (the message names the process and the reason), 507 when the disk is full, 404 when the sandbox ended
   * meanwhile, 503 when the tool was ended by somebody else.
   */
  checkpoint(request: CheckpointRequest): Promise<void>;

  /**
   * Lets a sandbox go on that stands still after `checkpoint`, or was frozen by its cgroup. One that is not, or ended
   * meanwhile, is left as it is.
   */
  letGo(id: string, cgroup: string): Promise<void>;

  /**
   * For a memory image from which copies are made, before it has its digests: what programs want to be wiped in
   * processes that are forked from them is wiped in it, so that copies of one program do not go on with the same seeds.
   * Absent: the wall cannot.
   */
  wipeForCopies?(images: string): Promise<void>;

  /** What has to be kept beside a memory image, for `mismatch` to judge it by. Plain data in the wall's own words. */
  readonly imageFacts: ImageFacts;

  /** Why an image that was written with these facts cannot be restored here; undefined when it can. */
  mismatch(written: ImageFacts): string | undefined;

  /**
   * Whether a memory image with these files holds TCP connections. They must not see a packet until all are restored.
   */
  holdsConnections(files: readonly string[]): boolean;

  /** Files below this folder that processes in a memory image have open, or are in. */
  openFiles(images: string, folder: string): OpenFile[];

  /** Makes the sandbox of a memory image again. Its first process runs already. */
  restore(request: RestoreRequest): Promise<RunningContainer>;

  /** Whether connections with the outside may be open, and packets come in, while a sandbox is written. */
  readonly keepsConnections: boolean;

  /** Whether processes inside are processes of the machine, among which the guest's can be put first. */
  readonly showsProcesses: boolean;

  /** Whether it chooses itself which address of an interface what is sent bears, whatever source the route names. */
  readonly choosesSource: boolean;

  /**
   * Ends what a killed server had under way and nobody waits for, so that it makes no more processes; what it has made
   * so far is found and removed as that of any sandbox that nobody claims.
   */
  recover(): Promise<void>;

  /** Resolves when no checkpoint of this sandbox that a killed server had begun is being written any more. */
  untilWritten(id: string): Promise<void>;

  /** Nothing is asked of it any more. Sandboxes go on. */
  close?(): Promise<void>;
}

/** What a sandbox is given of the machine. */
export interface SandboxSize {
  cpuCount: number;
  memoryMB: number;
  /** List of the processors it may run on; undefined for all. */
  processors: string | undefined;
}

export interface NewSandbox {
  id: string;
  /** Its own folder, in which the runtime may keep files, too. */
  folder: string;
  /** Its root filesystem, mounted. */
  root: string;
  /** As a path below the root of each tree: the sandbox's id, below the cgroup of the server. */
  cgroup: string;
  /** The ids that its processes have on the machine; the files of its root have them already. */
  ids: IdRange;
  size: SandboxSize;
  hostname: string;
  /** What is mounted into every sandbox, with the first process in it. */
  guestFolder: string;
  /** Shown as /proc/meminfo, and kept true by the guest; undefined shows the machine's. */
  meminfoFile: string | undefined;
  /** A file with the identity of this boot, shown inside as the kernel's: the real one is the same in all sandboxes. */
  bootIdFile: string;
  /** A file with the secret of the control channel, which root inside may read. */
  controlSecretFile: string;
  /** Folders that it shares with others: for everybody inside to write to, without devices and the bits of users. */
  volumes: readonly OutsideMount[];
  /** It has the disk of another sandbox, and must become somebody else. */
  copy: boolean;
  /** The most files a process here may be allowed to open; the server cannot grant more than it has. */
  openFilesMax: number;
  /** Of each of its users: processes, locked memory, pending signals and message queues. */
  userLimits: readonly UserLimit[];
}

export interface RunningContainer {
  /** What stands for the sandbox on the machine: it lives as long, and its network namespace is the sandbox's. */
  pid: number;
  /** What has the sandbox's root filesystem as its own root. */
  rootPid: number;
  /** What is mounted below the folder of the sandbox in the server's view, and is of no use any more. */
  left?: readonly string[];
}

/** The network namespace is there, empty, for the host to plug in. */
export interface CreatedContainer extends RunningContainer {
  /** What is mounted from the machine; to be told again when the sandbox is written and restored. */
  mounts: OutsideMount[];
}

export interface OutsideMount {
  inside: string;
  /** A path on the machine. */
  outside: string;
}

export interface OpenFile {
  /** Inside, by which it is found again. */
  path: string;
  /** As the process knew it, which may be another name of it. */
  shownPath: string;
  /** Undefined: its size makes no difference. */
  bytes: number | undefined;
}

export interface CheckpointRequest {
  id: string;
  pid: number;
  cgroup: string;
  folder: string;
  /** An empty folder for the memory image, which the runtime opens to whom it must. */
  images: string;
  mounts: readonly OutsideMount[];
  bounds: ImageBounds;
  /** No process runs any more, and nothing is written yet. Not every runtime says so. */
  onStopped?(): void;
  /**
   * Done, and must succeed, while all processes stand still and everything is written; given up when nobody waits for
   * it any more.
   */
  whileStopped(givenUp: AbortSignal): Promise<void>;
}

export interface ImageBounds {
  maxBytes: number;
  maxMs: number;
  /** Throws when the machine has no more room to give; asked again and again while the image grows. */
  demandRoom(): void;
}

export interface RestoreRequest {
  id: string;
  cgroup: string;
  /** As of a new one. The image may have been written with others. */
  ids: IdRange;
  size: SandboxSize;
  folder: string;
  root: string;
  images: string;
  mounts: readonly OutsideMount[];
  /** Some of these are folders that others use at the same time. */
  shared?: boolean;
  /** Open files that have become longer since, by their path inside, with the sizes they have now; absent: none. */
  grown?: ReadonlyMap<string, number>;
  /** Until root, files and what is mounted are there, the runtime only gets ready. */
  prepared: Promise<unknown>;
  /**
   * Plugs in the network namespace at this path. Called when it is there and no socket is: a socket may only be bound
   * to an address that exists.
   */
  plug(namespace: string): Promise<void>;
}

export type ImageFacts = Readonly<Record<string, unknown>>;
