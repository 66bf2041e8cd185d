/**
 * The veth pair of a slot, as batches for `ip -batch`. Pure. One end is made inside the sandbox's network namespace as
 * eth0, before its first process runs, and goes with it.
 */
import { GATEWAY_MAC, NAMESERVER_ADDRESS, SANDBOX_ADDRESS, SANDBOX_MAC } from "./address-plan.ts";

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

/** On the machine; makes both ends. */
export function outerBatch({ name, address, gateway, mtu, namespace }: OuterEnd): string {
  return [
    `link add ${name} address ${GATEWAY_MAC} mtu ${mtu} type veth ` +
      `peer name ${INNER_INTERFACE} address ${SANDBOX_MAC} mtu ${mtu} netns ${namespace}`,
    `link set ${name} addrgenmode none`,
    `link set ${name} up`,
    `route replace ${address}/32 dev ${name} src ${gateway}`,
    `neighbor replace ${address} lladdr ${SANDBOX_MAC} dev ${name} nud permanent`,
  ].join("\n");
}

/** In the sandbox's namespace. */
export function innerBatch({ address, slotAlone }: Pick<OuterEnd, "address" | "slotAlone">): string {
  return [
    "link set lo up",
    `address add ${SANDBOX_ADDRESS}/32 dev ${slotAlone ? "lo" : INNER_INTERFACE}`,
    `address add ${address}/32 dev ${INNER_INTERFACE}`,
    `link set ${INNER_INTERFACE} addrgenmode none`,
    `link set ${INNER_INTERFACE} up`,
    `neighbor replace ${NAMESERVER_ADDRESS} lladdr ${GATEWAY_MAC} dev ${INNER_INTERFACE} nud permanent`,
    `route add default via ${NAMESERVER_ADDRESS} dev ${INNER_INTERFACE} src ${address} onlink`,
  ].join("\n");
}

/**
 * A command of `tc` that bounds what leaves by an interface. At both ends it bounds both directions, and senders are
 * held back where a rule that drops would make them send again.
 */
export function shaping(device: string, mbit: number): string {
  const burst = Math.max(BURST_MIN_BYTES, (2 * mbit * 125_000) / TICKS_PER_SECOND);
  return `qdisc replace dev ${device} root tbf rate ${mbit}mbit burst ${burst} latency ${QUEUE_MS}ms`;
}
