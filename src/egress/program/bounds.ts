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

/** New connections of a sandbox: burst and sustained rate. Further ones are delayed. */
const RELAY_NEW_BURST_MAX = 1000;
export const RELAY_NEW_PER_SECOND = 1000;
/** Once a sandbox exceeds its memory share, its connections close after stalling for this time. */
const RELAY_STALLED_MS = 60_000;
const RELAY_LOOK_EVERY_MS = 10_000;
/** Time that a refused client has to read the reason. */
const RELAY_LINGER_MS = 30_000;
/**
 * Buffered bytes: sandboxes share the total evenly, but each has at least the minimum. One more chunk per connection,
 * as the kernel delivers it, may come on top.
 */
const RELAY_HELD_MAX_BYTES = 256 * 1024 * 1024;
const RELAY_HELD_PER_SANDBOX_MIN_BYTES = 1024 * 1024;

/** Minimum interval between two log entries about failing connections of a sandbox. */
const REPORT_EVERY_MS = 60_000;

export const BOUNDS = {
  connections: RELAY_CONNECTIONS_MAX,
  connectionsPerSandbox: RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  waitingPerSandbox: RELAY_WAITING_PER_SANDBOX_MAX,
  newBurst: RELAY_NEW_BURST_MAX,
  newPerSecond: RELAY_NEW_PER_SECOND,
  helloMs: RELAY_HELLO_MS,
  dialMs: RELAY_DIAL_MS,
  dialAddressMs: RELAY_DIAL_ADDRESS_MS,
  idleMs: RELAY_IDLE_MS,
  stalledMs: RELAY_STALLED_MS,
  lookEveryMs: RELAY_LOOK_EVERY_MS,
  lingerMs: RELAY_LINGER_MS,
  reportEveryMs: REPORT_EVERY_MS,
  heldBytes: RELAY_HELD_MAX_BYTES,
  heldPerSandboxMinBytes: RELAY_HELD_PER_SANDBOX_MIN_BYTES,
};

export type Bounds = Readonly<Record<keyof typeof BOUNDS, number>>;
