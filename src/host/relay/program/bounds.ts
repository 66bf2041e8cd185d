/** What the relay keeps to. Tests take less of it. */
import {
  RELAY_CONNECTIONS_MAX,
  RELAY_CONNECTIONS_PER_SANDBOX_MAX,
  RELAY_DIAL_ADDRESS_MS,
  RELAY_DIAL_MS,
  RELAY_HELD_MAX_BYTES,
  RELAY_HELD_PER_SANDBOX_MIN_BYTES,
  RELAY_HELLO_MS,
  RELAY_IDLE_MS,
  RELAY_LINGER_MS,
  RELAY_LOOK_EVERY_MS,
  RELAY_NEW_BURST_MAX,
  RELAY_NEW_PER_SECOND,
  RELAY_STALLED_MS,
  RELAY_WAITING_PER_SANDBOX_MAX,
} from "../../limits.ts";

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
