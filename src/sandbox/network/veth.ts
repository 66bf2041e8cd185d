/**
 * The veth pair of a slot. Pure. One end is made inside the sandbox's network namespace as eth0, before its first
 * process runs, and goes with it.
 */

/** The inner end. */
export const INNER_INTERFACE = "eth0";

/** How much may wait at an end of the pair before packets are dropped, as time. */
const QUEUE_MS = 50;
/** What may pass at once. At least a few of the largest packets, and what a tick of the slowest clock lets through. */
const BURST_MIN_BYTES = 256 * 1024;
const TICKS_PER_SECOND = 100;

export interface OuterEnd {
  /** The name of the end on the machine. */
  name: string;
  address: string;
  gateway: string;
  mtu: number;
  /** The sandbox's network namespace: a path. */
  namespace: string;
  /** What passes each way in a second; undefined: as much as can. */
  bandwidthMbit: number | undefined;
  /** The inner end has the address of the slot alone; the one that all sandboxes see is on the loopback. */
  slotAlone: boolean;
}

/**
 * A command of `tc` that bounds what leaves by an interface. At both ends it bounds both directions, and senders are
 * held back where a rule that drops would make them send again.
 */
export function shaping(device: string, mbit: number): string {
  const burst = Math.max(BURST_MIN_BYTES, (2 * mbit * 125_000) / TICKS_PER_SECOND);
  return `qdisc replace dev ${device} root tbf rate ${mbit}mbit burst ${burst} latency ${QUEUE_MS}ms`;
}
