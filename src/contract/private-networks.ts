/**
 * Private networks that the operator opens to sandboxes: ranges, addresses and host names. No entry opens loopback, the
 * sandboxes themselves or multicast. Only an entry that is exactly its address opens a metadata service, so that
 * neither a wide range nor a DNS response does.
 */
import { CLOSED_IPV4 } from "./closed-ranges.ts";
import { domainPattern } from "./domain-pattern.ts";
import { Fault } from "./fault.ts";
import { Ipv4Ranges, ipv4Range, isIpv6Range } from "./ip-range.ts";

export interface PrivateNetworks {
  /** As `ipv4Range` writes them, without addresses that are never opened. */
  ranges: readonly string[];
  names: readonly string[];
}

export const PRIVATE_ENTRIES_MAX = 100;
/** A wider range is probably a mistake. */
const PREFIX_MIN = 8;
const rangesThatOpen = (how: "never" | "by address") =>
  CLOSED_IPV4.filter(({ opens }) => opens === how).map(({ range }) => range);
const NEVER = new Ipv4Ranges(rangesThatOpen("never"));
/** Includes metadata services of single clouds that lie in ranges which may be opened. */
const METADATA = new Ipv4Ranges([...rangesThatOpen("by address"), "100.100.100.200/32", "192.0.0.192/32"]);

/** Fault 400 with the invalid entry. `what` is the name of the list. */
export function parsePrivateNetworks(what: string, entries: readonly string[]): PrivateNetworks {
  const refuse = (entry: string, why: string) => new Fault(400, `${what}: "${entry.slice(0, 300)}" ${why}`);
  if (entries.length > PRIVATE_ENTRIES_MAX) {
    throw new Fault(400, `${what} must have at most ${PRIVATE_ENTRIES_MAX} entries, got ${entries.length}`);
  }
  const exact: string[] = [];
  const ranges: string[] = [];
  const names: string[] = [];
  for (const entry of entries) {
    const range = ipv4Range(entry);
    if (range === undefined) {
      if (isIpv6Range(entry)) throw refuse(entry, "is IPv6, which is closed to sandboxes");
      const name = domainPattern(entry);
      if (name === undefined || name.startsWith("*")) {
        throw refuse(entry, "is not an IPv4 address, range or host name such as 10.1.0.0/16 or git.example.com");
      }
      names.push(name);
      continue;
    }
    const prefix = Number(range.split("/")[1]);
    const only = new Ipv4Ranges([range]);
    if (prefix < PREFIX_MIN) throw refuse(entry, `is wider than /${PREFIX_MIN}; name the networks that are needed`);
    if (only.without(NEVER).cidrs.length === 0) {
      throw refuse(
        entry,
        "is never open to sandboxes: it is loopback, the sandboxes themselves, multicast or reserved",
      );
    }
    if (prefix === 32) exact.push(range);
    else if (only.without(METADATA).cidrs.length === 0) {
      throw refuse(entry, "contains cloud metadata services; list each of their addresses by itself");
    } else ranges.push(range);
  }
  const wide = new Ipv4Ranges(ranges).without(METADATA).cidrs;
  return { ranges: new Ipv4Ranges([...wide, ...exact]).without(NEVER).cidrs, names };
}

/** The addresses of a name that it opens. */
export function openedByName(addresses: readonly string[]): string[] {
  return new Ipv4Ranges(addresses).without(METADATA).without(NEVER).cidrs;
}
