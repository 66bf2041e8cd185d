/** Limits that the relay applies. Tests lower them. */
import {
  RELAY_CONNECTIONS_MAX,
  RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  RELAY_DIAL_ADDRESS_MS,
  RELAY_DIAL_MS,
  RELAY_HELLO_MS,
  RELAY_IDLE_MS,
  RELAY_WAITING_PER_SANDBOX_MAX,
} from "../limits.ts";

export const RELAY_NEW_PER_SECOND = 1000;

export const BOUNDS = {
  connections: RELAY_CONNECTIONS_MAX,
  connectionsPerSandbox: RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  waitingPerSandbox: RELAY_WAITING_PER_SANDBOX_MAX,
  /** New connections of a sandbox: burst and sustained rate. Further ones are delayed. */
  newBurst: 1000,
  newPerSecond: RELAY_NEW_PER_SECOND,
  helloMs: RELAY_HELLO_MS,
  dialMs: RELAY_DIAL_MS,
  dialAddressMs: RELAY_DIAL_ADDRESS_MS,
  idleMs: RELAY_IDLE_MS,
  /** Once a sandbox exceeds its memory share, its connections close after stalling for this time. */
  stalledMs: 60_000,
  lookEveryMs: 10_000,
  /** Time that a refused client has to read the reason. */
  lingerMs: 30_000,
  /** Minimum interval between two log entries about failing connections of a sandbox. */
  reportEveryMs: 60_000,
  /**
   * Buffered bytes: sandboxes share the total evenly, but each has at least the minimum. One more chunk per connection,
   * as the kernel delivers it, may come on top.
   */
  heldBytes: 256 * 1024 * 1024,
  heldPerSandboxMinBytes: 1024 * 1024,
};

export type Bounds = Readonly<Record<keyof typeof BOUNDS, number>>;
