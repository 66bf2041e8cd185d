/** Turns a sandbox's network settings into the egress rules of the host. */
import { domainPattern } from "../../contract/domain-pattern.ts";
import { Fault } from "../../contract/fault.ts";
import type { Egress, EgressPolicy, Host } from "../../contract/internal/host.ts";
import { Ipv4Ranges, ipv4Range } from "../../contract/ip-range.ts";
import { ALL_ADDRESSES } from "../../contract/management/egress-entry.ts";
import { readProxyAddress } from "../../contract/management/proxy-address.ts";
import type { EgressSettings, Sandbox, SandboxNetwork } from "../../store/sandboxes.ts";

/**
 * IPv6 entries add nothing: all IPv6 is closed. `privateRanges` are the private networks that the operator opened to
 * the team; the allow and deny entries apply to them as to the internet.
 */
export function egressOf(
  { network, allowInternetAccess }: Pick<Sandbox, "network" | "allowInternetAccess">,
  privateRanges: readonly string[],
): Egress {
  const { allowOut = [], denyOut = [] } = network;
  const ruleNames = Object.keys(network.rules ?? {});
  const policy: EgressPolicy = {
    allowRanges: rangesIn(allowOut),
    allowNames: namesIn(allowOut),
    denyRanges: rangesIn(allowInternetAccess === false ? [ALL_ADDRESSES] : denyOut),
    proxy: proxyOf(network),
    ...(privateRanges.length > 0 && { privateRanges }),
    ...(ruleNames.length > 0 && { ruleNames }),
  };
  const { allowRanges, allowNames, denyRanges, proxy } = policy;
  const deniesAll = new Ipv4Ranges(denyRanges).isAll;
  if (deniesAll && allowRanges.length === 0 && allowNames.length === 0) return "closed";
  const allowsAll = denyRanges.length === 0 || new Ipv4Ranges(allowRanges).isAll;
  const isPlain = proxy === null && privateRanges.length === 0 && ruleNames.length === 0;
  return allowsAll && isPlain ? "open" : policy;
}

/** Private networks that are open to the sandboxes of a team. */
export type PrivateRangesOf = (teamId: string | undefined) => Promise<readonly string[]>;

/** Fault 400 when the proxy's address is closed to every sandbox, so that no connection through it could succeed. */
export async function requireOpenProxy(
  { host, privateRangesOf }: { host: Host; privateRangesOf: PrivateRangesOf },
  teamId: string,
  { egressProxy }: EgressSettings,
  field: string,
): Promise<void> {
  if (egressProxy === undefined) return;
  const name = readProxyAddress(egressProxy.address)?.host ?? "";
  const found = await host.lookUp(name, await privateRangesOf(teamId));
  // A name that does not resolve yet may do so later. Until then the sandbox's log says why connections fail.
  if (found.length === 0 || found.some(({ isClosed }) => !isClosed)) return;
  const closed = `leads to ${found[0]?.address}, which is closed to every sandbox`;
  throw new Fault(400, `validation error: ${field}.address ${closed}`);
}

function rangesIn(entries: readonly string[]): string[] {
  return [...new Set(entries.flatMap((entry) => ipv4Range(entry) ?? []))];
}

function namesIn(entries: readonly string[]): string[] {
  // No entry is both a range and a name: an address is not a domain pattern.
  return [...new Set(entries.flatMap((entry) => domainPattern(entry) ?? []))];
}

function proxyOf({ egressProxy }: SandboxNetwork): EgressPolicy["proxy"] {
  if (egressProxy === undefined) return null;
  const address = readProxyAddress(egressProxy.address);
  // Without the proxy, connections would leave directly.
  if (address === undefined) throw new Fault(500, `the stored proxy address "${egressProxy.address}" cannot be read`);
  const { username, password = "" } = egressProxy;
  return { ...address, credentials: username ? { username, password } : null };
}
