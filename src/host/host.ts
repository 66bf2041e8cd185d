import type { LogLine } from "../contract/sandbox-log.ts";

/**
 * One machine that makes, runs and destroys sandboxes: the only door from the rest of the project into `src/host`.
 * Everything that needs privileges happens behind this interface; nothing behind it knows of teams, keys or HTTP clients.
 * All methods may be called concurrently. Errors are Faults.
 */
export interface Host {
  /**
   * A running sandbox whose guest has answered. The host chooses the id, because a sandbox may have been booted before
   * anybody asked for it. Fault 503 when the machine has no room, 404 when the image is not on this machine.
   */
  create(request: CreateSandbox): Promise<CreatedSandbox>;

  /**
   * Writes a running sandbox into the checkpoint `name` and ends it. Resolves when the checkpoint is durable and nothing of the
   * sandbox is left on the machine but that. When it throws, the sandbox runs on as if nothing had been asked and there is no
   * checkpoint: Fault 422 when something in the sandbox cannot be kept (the message names the process and the reason), 507 when
   * the disk is full, 404 when it does not run. From the moment of the call until it is settled, `endpoint` does not know it.
   */
  pause(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /**
   * The same sandbox again, from a checkpoint: same id, same address inside. Resolves when its guest has answered. The
   * checkpoint stays until `removeCheckpoint`, so that a failure at any later step loses nothing. Fault 422 when the checkpoint
   * does not fit this machine (the message says what differs, and that `memory: false` starts from its disk alone), 503 when
   * the machine has no room, 404 when there is no such checkpoint.
   */
  resume(request: ResumeSandbox): Promise<void>;

  /** Like `pause`, but the sandbox goes on after a short stop. Any number of sandboxes can be created from the checkpoint. */
  snapshot(id: string, name: string, options: CheckpointOptions): Promise<void>;

  /** Idempotent; an unknown name is success. Sandboxes that were made from it are not touched. */
  removeCheckpoint(name: string): Promise<void>;

  /**
   * Ends a sandbox and removes all it had. From the moment of the call `endpoint` no longer knows it. Idempotent; an
   * unknown id is success.
   */
  destroy(id: string): Promise<void>;

  /** Where a running sandbox can be reached from the host, or undefined. Never waits. */
  endpoint(id: string): Endpoint | undefined;

  /**
   * Takes back what there is after a restart: keeps what is named, removes the rest. Answers what of it there is. A sandbox
   * whose pause was interrupted runs on.
   */
  adopt(keep: Belongings): Promise<Belongings>;

  /** Called once for each sandbox that ended without `destroy` (its first process died). */
  onLost(listener: (id: string) => void): void;

  /** What happens in sandboxes that are handed out is told to `reader`. Called once, before there is a sandbox. */
  onLog(reader: LogReader): void;

  /** What those of `ids` that run use at this moment. They do not notice. */
  measure(ids: readonly string[]): Promise<ReadonlyMap<string, Usage>>;

  /** Keeps booted sandboxes of these kinds ready. Replaces the previous request. */
  keepReady(kinds: readonly SandboxKind[]): void;

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
}

export interface CreateSandbox {
  kind: SandboxKind;
  /** Start as a copy of what is in this checkpoint: with its memory if it has any, else from its disk. */
  checkpoint?: string;
  envVars: Record<string, string>;
  /** Tokens that open the runtime; empty means that it answers without one. */
  accessTokens: string[];
  /** False: no packet leaves the sandbox, names do not resolve. */
  internet: boolean;
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

export interface LogReader {
  /** The newest position that was taken of a sandbox's log, also before a restart of the server. */
  positionOf(id: string): Promise<string | undefined>;
  /**
   * Lines in their order, and the position behind them; none for lines that are the host's own. Never waits. False: none of
   * them was taken, because too many wait or the sandbox is not known yet; the host comes again with all after `positionOf`.
   */
  take(id: string, lines: readonly LogLine[], position: string | undefined): boolean;
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
export interface Belongings {
  sandboxes: ReadonlySet<string>;
  checkpoints: ReadonlySet<string>;
}

export interface CreatedSandbox {
  /** `i` and 20 of [a-z0-9]. */
  id: string;
}

export interface Endpoint {
  /** IPv4 address of the sandbox as seen from this machine. */
  address: string;
  /** A port at `address` that leads to a service bound to a loopback address on `port`, or undefined if there is none. */
  forward(port: number): Promise<number | undefined>;
}
