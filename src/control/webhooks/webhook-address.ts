/**
 * Checks the target of a webhook. A webhook makes the server send requests, so it must not reach what only the server
 * can: itself, its neighbours, sandboxes, or a cloud's metadata service. Decided by address, never by name.
 */
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { CLOSED_IPV4, CLOSED_IPV6 } from "../../contract/closed-ranges.ts";
import { Fault } from "../../contract/fault.ts";
import { mappedIpv4 } from "../../contract/ip-range.ts";

const closed = new BlockList();
for (const { range } of CLOSED_IPV4) closed.addSubnet(...split(range), "ipv4");
for (const { range } of CLOSED_IPV6) closed.addSubnet(...split(range), "ipv6");

/** Whether an address is private: of this machine, of a network it is on, or of a reserved range. */
export function isInside(address: string, own: OwnNetworks = ownNetworks()): boolean {
  const mapped = mappedIpv4(address);
  if (mapped !== undefined) return isInside(mapped, own);
  if (isIPv4(address)) return closed.check(address, "ipv4") || own.check(address, "ipv4");
  // Text that is not an address counts as private.
  return !isIPv6(address) || address.includes("%") || closed.check(address, "ipv6") || own.check(address, "ipv6");
}

type OwnNetworks = Pick<BlockList, "check">;

/** The machine's addresses, each with its network. Read every time, because they change. */
export function ownNetworks(interfaces = networkInterfaces()): BlockList {
  const own = new BlockList();
  for (const { address, family, cidr } of Object.values(interfaces).flatMap((entries) => entries ?? [])) {
    const kind = family === "IPv4" ? "ipv4" : "ipv6";
    const [bare = ""] = address.split("%");
    own.addAddress(bare, kind);
    const prefix = Number(cidr?.split("/")[1]);
    // A wider prefix covers much of the internet, so it is not a local network.
    if (prefix >= (kind === "ipv4" ? 8 : 32)) own.addSubnet(bare, prefix, kind);
  }
  return own;
}

/** Checks the URL of a webhook as far as possible without DNS; else a Fault 400. */
export function checkedUrl(text: string, allowInside: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:") || url.hostname === "") {
    throw new Fault(400, "url must be an http or https address");
  }
  if (url.username !== "" || url.password !== "") {
    throw new Fault(400, "url must not contain a user name or password; receivers check the signature");
  }
  const literal = bareHost(url);
  if (!allowInside && (isIPv4(literal) || isIPv6(literal)) && isInside(literal)) {
    throw new Fault(400, `url points to ${literal}, a private address; webhooks must target public addresses`);
  }
  return url;
}

/** The host without the brackets of IPv6. */
export function bareHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

function split(range: string): [string, number] {
  const [address = "", prefix = ""] = range.split("/");
  return [address, Number(prefix)];
}
