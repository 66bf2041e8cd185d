/** Resolves a host name and marks the addresses that no sandbox may reach. */
import { networkInterfaces } from "node:os";
import type { LookedUp } from "../../contract/internal/host.ts";
import { Ipv4Ranges, ipv4Range } from "../../contract/ip-range.ts";
import { NameClient } from "../../egress/program/name-client.ts";

const DNS_PORT = 53;

interface Reach {
  /** The address where the DNS relay listens. */
  gateway: string;
  /** Closed ranges. The machine's own addresses are also closed, even if `open` contains them. */
  closed: readonly string[];
  open: readonly string[];
}

export async function lookUp(host: string, { gateway, closed, open }: Reach): Promise<LookedUp[]> {
  const isAddress = ipv4Range(host) !== undefined && !host.includes("/");
  const addresses = isAddress ? [host] : await new NameClient({ address: gateway, port: DNS_PORT }).resolve(host);
  const ranges = new Ipv4Ranges(closed).without(new Ipv4Ranges(open));
  const own = new Set(Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []));
  return addresses.map((address) => ({ address, isClosed: own.has(address) || ranges.has(address) }));
}
