/** What the relay keeps to. Tests take less of it. */
import {
  RELAY_CONNECTIONS_MAX,
  RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  RELAY_DIAL_ADDRESS_MS,
  RELAY_DIAL_MS,
  RELAY_HELLO_MS,
  RELAY_IDLE_MS,
  RELAY_WAITING_PER_SANDBOX_MAX,
} from "../limits.ts";

/** New ones of a sandbox: so many at once, and each second for good; a further one waits for its turn. */
const RELAY_NEW_BURST_MAX = 1000;
export const RELAY_NEW_PER_SECOND = 1000;
/** Of a sandbox that has used up its share of the memory, one that nothing was taken from for so long is over. */
const RELAY_STALLED_MS = 60_000;
const RELAY_LOOK_EVERY_MS = 10_000;
/** Whoever was refused has so long to read why. */
const RELAY_LINGER_MS = 30_000;
/**
 * Bytes that nobody took yet: sandboxes share them evenly, but each has the second. One more piece of a connection,
 * as the kernel hands it over, may come on top.
 */
const RELAY_HELD_MAX_BYTES = 256 * 1024 * 1024;
const RELAY_HELD_PER_SANDBOX_MIN_BYTES = 1024 * 1024;

/** Why connections of a sandbox fail is told to its log so often at most. */
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
