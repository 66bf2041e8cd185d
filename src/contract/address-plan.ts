/**
 * Address plan. Inside, every sandbox has the same addresses, so that a copy needs no new ones; outside, each has its
 * own slot address.
 *
 * Slot addresses come from 198.18.0.0/15, the range reserved for benchmarks: no LAN, VPN or cloud uses it. It is split
 * into 32 nets of 4 096 addresses, one for each server on the machine.
 */
import { CLOSED_IPV4 } from "./closed-ranges.ts";
import { dotted } from "./ip-range.ts";

/** The sandbox's address on eth0; with runsc, on lo (plugging.ts). */
export const SANDBOX_ADDRESS = "169.254.0.21";
/**
 * Next hop and name server of every sandbox. No interface has this address: the neighbour entry is fixed, and DNS is
 * redirected.
 */
export const NAMESERVER_ADDRESS = "169.254.0.22";

export const SANDBOX_MAC = "02:5a:00:00:00:21";
export const GATEWAY_MAC = "02:5a:00:00:00:22";

export const NET_COUNT = 32;
const SLOTS_PER_NET = 4096;

/** First address of a server's net. */
export function netAddress(net: number): string {
  return dotted(netBase(net));
}

/**
 * The server's own address in its net: the source of traffic from the host to sandboxes, and the address of the DNS
 * relay.
 */
export function gatewayAddress(net: number): string {
  return dotted(netBase(net) + 1);
}

/** Slots are numbered from 2, so that the number is also the offset in the net. */
export function slotAddress(net: number, slot: number): string {
  return dotted(netBase(net) + slot);
}

/** All nets of all servers. */
export const SLOT_RANGE = `${netAddress(0)}/15`;

export const SLOT_FIRST = 2;
export const SLOT_LAST = SLOTS_PER_NET - 2;

function netBase(net: number): number {
  return ((198 << 24) | (18 << 16)) + net * SLOTS_PER_NET;
}

/** Closed to every sandbox, whatever its rules say. All of IPv6 is closed by the firewall. */
export const CLOSED_RANGES: readonly string[] = CLOSED_IPV4.map(({ range }) => range);
