/**
 * A sandbox that is restored gets a new network namespace, without the settings of the one before, and its sockets come
 * back one by one. Some may be bound to the address that the sandbox had, so while they are restored it has to be
 * there. And until all of them are, no packet may arrive: one that finds the other end missing would break the
 * connection. So it is plugged in by `plugScript` before there is a socket, and `settleScript` ends both exceptions
 * afterwards. Pure.
 */
import type { IdRange } from "../system/id-range.ts";
import { SANDBOX_ADDRESS } from "./address-plan.ts";
import { namespaceSettings } from "./namespace-settings.ts";
import { INNER_INTERFACE, innerBatch, type OuterEnd, outerBatch, shaping } from "./veth.ts";

/** A table inside the sandbox, for as long as it is being restored. */
const HOLD = "sandlot_hold";

/** What is known of the sockets of a sandbox that is being restored. */
export interface SocketsBefore {
  /** Where the sandbox was reached. */
  address: string;
  /** Whether there are TCP connections among them. */
  connected: boolean;
}

/** Shell commands. */
export function plugScript(end: OuterEnd, before: SocketsBefore, ids: IdRange): string {
  const settings = Object.entries(namespaceSettings(ids.first)).map(
    ([name, value]) => `echo "${value}" > /proc/sys/${name.replaceAll(".", "/")}`,
  );
  const alsoBefore = before.address === end.address ? [] : [`address add ${before.address}/32 dev lo`];
  const { bandwidthMbit } = end;
  const shaped = (device: string) => (bandwidthMbit === undefined ? [] : [`tc ${shaping(device, bandwidthMbit)}`]);
  const hold = `nft 'table inet ${HOLD} { chain input { type filter hook input priority raw; policy drop; }; }'`;
  return [
    `ip -batch - <<END\n${outerBatch(end)}\nEND`,
    ...shaped(end.name),
    `echo 1 > /proc/sys/net/ipv6/conf/${end.name}/disable_ipv6`,
    `exec nsenter --net="${end.namespace}" -- /bin/sh -e <<END`,
    ...settings,
    // The setting for new interfaces came too late for this one.
    `echo 1 > /proc/sys/net/ipv6/conf/${INNER_INTERFACE}/disable_ipv6`,
    ...(before.connected ? [hold] : []),
    `ip -batch - <<INNER\n${[innerBatch(end), ...alsoBefore].join("\n")}\nINNER`,
    ...shaped(INNER_INTERFACE),
    "END",
  ].join("\n");
}

/** What the sandbox is now, and what is known of it after its restore. */
interface Settled {
  address: string;
  before: SocketsBefore;
  /** A UDP socket of it has a peer, which may be anywhere. */
  connectedUdp: boolean;
  /** It is called this from now on. */
  name: string | undefined;
}

/**
 * Shell commands inside the namespaces of the sandbox; undefined when there is nothing to do, as for most. Connections
 * within the sandbox go on. Those to the outside are closed: their other ends have long given up, or belong to the
 * sandbox that this one is a copy of. On a kernel that cannot close them they lead nowhere and time out.
 */
export function settleScript({ address, before, connectedUdp, name }: Settled): string | undefined {
  const within = ["127.0.0.0/8", "[::1]", SANDBOX_ADDRESS, address, before.address].map((each) => `dst ${each}`);
  const outside = `not ( ${within.join(" or ")} )`;
  const commands = [
    (before.connected || connectedUdp) &&
      `ss --kill --no-header --tcp --udp --numeric state connected '${outside}' > /dev/null || true`,
    before.connected && `nft delete table inet ${HOLD}`,
    before.address !== address && `ip address del ${before.address}/32 dev lo`,
    name !== undefined && `echo ${name} > /proc/sys/kernel/hostname`,
  ].filter((command) => command !== false);
  return commands.length === 0 ? undefined : commands.join("\n");
}
