/**
 * The veth pair of a slot. Pure. One end is created as eth0 inside the sandbox's network namespace before its first
 * process runs, and disappears with it.
 */

/** Name of the inner end. */
export const INNER_INTERFACE = "eth0";

/** Maximum queueing delay at an end of the pair before packets are dropped. */
const QUEUE_MS = 50;
/** Minimum burst: a few of the largest packets, and the bytes that pass during one tick of the slowest kernel clock. */
const BURST_MIN_BYTES = 256 * 1024;
const TICKS_PER_SECOND = 100;

export interface OuterEnd {
  /** Name of the host's end. */
  name: string;
  address: string;
  gateway: string;
  mtu: number;
  /** Path of the sandbox's network namespace. */
  namespace: string;
  /** Bandwidth in each direction; undefined: no limit. */
  bandwidthMbit: number | undefined;
  /** The inner end has only the slot's address; the address common to all sandboxes is on the loopback. */
  slotAlone: boolean;
}

/**
 * A `tc` command that limits what an interface sends. Applied at both ends, it limits both directions. It delays
 * senders instead of dropping packets, which they would send again.
 */
export function shaping(device: string, mbit: number): string {
  const burst = Math.max(BURST_MIN_BYTES, (2 * mbit * 125_000) / TICKS_PER_SECOND);
  return `qdisc replace dev ${device} root tbf rate ${mbit}mbit burst ${burst} latency ${QUEUE_MS}ms`;
}
