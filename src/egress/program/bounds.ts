/** Limits that the relay applies. Tests lower some of them. */

export const RELAY_CONNECTIONS_MAX = 8192;
export const RELAY_CONNECTIONS_PER_SANDBOX_MAX = 1024;
export const RELAY_NEW_PER_SECOND = 1000;
/** Size and time limits of the bytes that name the destination: a TLS hello or an HTTP head. */
export const RELAY_HELLO_MAX_BYTES = 64 * 1024;
export const RELAY_HELLO_MS = 10_000;

export const BOUNDS = {
  connections: RELAY_CONNECTIONS_MAX,
  connectionsPerSandbox: RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  /** Connections of a sandbox that are not connected upstream yet. */
  waitingPerSandbox: 256,
  /** New connections of a sandbox: burst and sustained rate. Further ones are delayed. */
  newBurst: 1000,
  newPerSecond: RELAY_NEW_PER_SECOND,
  /**
   * Requests of a sandbox to names with header rules, which the server answers, and connections to them, with two TLS
   * handshakes each. Further ones are delayed, and fail when as many as a burst are delayed already.
   */
  ruledBurst: 1000,
  ruledPerSecond: 500,
  interceptedBurst: 500,
  interceptedPerSecond: 200,
  /** Connections with HTTP/2 to names with header rules. Further ones get HTTP/1.1. */
  http2Connections: 256,
  http2PerSandbox: 32,
  helloMs: RELAY_HELLO_MS,
  /** Time from a name to an open connection: in total, and for each address. */
  dialMs: 30_000,
  dialAddressMs: 10_000,
  idleMs: 2 * 3_600_000,
  /** Once a sandbox exceeds its memory share, its connections close after stalling for this time. */
  stalledMs: 60_000,
  idleCheckMs: 10_000,
  /** Time that a rejected client has to read the reason. */
  lingerMs: 30_000,
  /** Minimum interval between two log entries about failing connections of a sandbox. */
  reportEveryMs: 60_000,
  /** Sandboxes share the total, but each has the minimum. One chunk per connection may come on top. */
  heldBytes: 256 * 1024 * 1024,
  heldPerSandboxMinBytes: 1024 * 1024,
};

export type Bounds = Readonly<Record<keyof typeof BOUNDS, number>>;
