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
   * Ends a sandbox and removes all it had. From the moment of the call `endpoint` no longer knows it. Idempotent; an
   * unknown id is success.
   */
  destroy(id: string): Promise<void>;

  /** Where a running sandbox can be reached from the host, or undefined. Never waits. */
  endpoint(id: string): Endpoint | undefined;

  /** Takes back what runs after a restart: keeps `ids`, destroys the rest. Answers which of `ids` are alive. */
  adopt(ids: ReadonlySet<string>): Promise<ReadonlySet<string>>;

  /** Called once for each sandbox that ended without `destroy` (its first process died). */
  onLost(listener: (id: string) => void): void;

  /** Keeps booted sandboxes of these kinds ready. Replaces the previous wish. */
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
  envVars: Record<string, string>;
  /** Tokens that open the runtime; empty means that it answers without one. */
  accessTokens: string[];
  /** False: no packet leaves the sandbox, names do not resolve. */
  internet: boolean;
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
