/**
 * Entries of egress lists: addresses, ranges, and names where they are allowed. Each check returns the problem, in
 * words that follow the entry, or undefined.
 */
import { domainPattern } from "../domain-pattern.ts";
import { ipv4Range, ipv6Groups, isIpv6Range, mappedIpv4 } from "../ip-range.ts";
import { EGRESS_ENTRY_MAX_CHARS } from "./limits.ts";

/** The exact text that clients send, and that allowed names require in the deny list. */
export const ALL_ADDRESSES = "0.0.0.0/0";
const ALL_IPV6 = "::/0";

/** Any other entry can only be a name. */
export function isAddressEntry(entry: string): boolean {
  return ipv4Range(entry) !== undefined || isIpv6Range(entry);
}

export function allowProblem(entry: string): string | undefined {
  if (isAddressEntry(entry)) return addressProblem(entry);
  if (entry.length > EGRESS_ENTRY_MAX_CHARS) return tooLong(entry);
  if (domainPattern(entry) !== undefined) return undefined;
  return "is not an address, range or name such as example.com, *.example.com or *; write neither scheme nor port";
}

export function denyProblem(entry: string): string | undefined {
  if (isAddressEntry(entry)) return addressProblem(entry);
  if (entry.length > EGRESS_ENTRY_MAX_CHARS) return tooLong(entry);
  return `is not an address or range such as 203.0.113.0/24; names cannot be denied, ${ALL_ADDRESSES} can`;
}

function tooLong({ length }: string): string {
  return `must have at most ${EGRESS_ENTRY_MAX_CHARS} characters, got ${length}`;
}

function addressProblem(entry: string): string | undefined {
  if (entry === ALL_ADDRESSES || entry === ALL_IPV6) return undefined;
  const [address = ""] = entry.split("/");
  if (address === "0.0.0.0" || ipv6Groups(address)?.every((group) => group === 0)) {
    return `begins with the unspecified address; for all addresses write exactly ${ALL_ADDRESSES}`;
  }
  // The kernel sends to the inner IPv4 address, which a rule about IPv6 would miss.
  if (mappedIpv4(address) !== undefined) return "is an IPv4 address in the form of IPv6; write the IPv4 address";
  return undefined;
}
