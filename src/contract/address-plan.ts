/**
 * Addresses. Inside, every sandbox sees the same ones, so that a copy of a sandbox needs no new ones; outside, each has
 * a slot address of its own.
 *
 * Slot addresses come from 198.18.0.0/15, the range set aside for benchmarks: no LAN, VPN or cloud uses it. It is cut
 * into 32 nets of 4 096, one for each server on the machine.
 */
import { CLOSED_IPV4 } from "./closed-ranges.ts";

/** What a sandbox sees on eth0; behind runsc, on lo (veth.ts). */
export const SANDBOX_ADDRESS = "169.254.0.21";
/**
 * Next hop and name server of every sandbox. No interface carries it: the neighbour entry is fixed, DNS is redirected.
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
 * The server's own address in its net: source of what the host sends into sandboxes, and where the DNS relay listens.
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

function dotted(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".");
}

/** Closed to every sandbox, whatever it asks for. All of IPv6 is closed by rule. */
export const CLOSED_RANGES: readonly string[] = CLOSED_IPV4.map(({ range }) => range);
