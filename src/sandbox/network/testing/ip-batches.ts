/** The veth pair of a slot as `ip -batch` text; tests compare the netlink requests with it. Pure. */
import { GATEWAY_MAC, NAMESERVER_ADDRESS, SANDBOX_ADDRESS, SANDBOX_MAC } from "../../../contract/address-plan.ts";
import { INNER_INTERFACE, type OuterEnd } from "../veth.ts";

/** Commands on the machine; they create both ends. */
export function outerBatch({ name, address, gateway, mtu, namespace }: OuterEnd): string {
  return [
    `link add ${name} address ${GATEWAY_MAC} mtu ${mtu} type veth ` +
      `peer name ${INNER_INTERFACE} address ${SANDBOX_MAC} mtu ${mtu} netns ${namespace}`,
    `link set ${name} addrgenmode none`,
    `link set ${name} up`,
    `route replace ${address}/32 dev ${name} src ${gateway} congctl reno`,
    `neighbor replace ${address} lladdr ${SANDBOX_MAC} dev ${name} nud permanent`,
  ].join("\n");
}

/** Commands in the sandbox's namespace. */
export function innerBatch({
  address,
  gateway,
  slotAlone,
}: Pick<OuterEnd, "address" | "gateway" | "slotAlone">): string {
  const byNextHop = `via ${NAMESERVER_ADDRESS} dev ${INNER_INTERFACE} src ${address} onlink`;
  return [
    "link set lo up",
    `address add ${SANDBOX_ADDRESS}/32 dev ${slotAlone ? "lo" : INNER_INTERFACE}`,
    `address add ${address}/32 dev ${INNER_INTERFACE}`,
    `link set ${INNER_INTERFACE} addrgenmode none`,
    `link set ${INNER_INTERFACE} up`,
    `neighbor replace ${NAMESERVER_ADDRESS} lladdr ${GATEWAY_MAC} dev ${INNER_INTERFACE} nud permanent`,
    `route add default ${byNextHop}`,
    ...(slotAlone ? [] : [`route add ${gateway}/32 ${byNextHop} congctl reno`]),
  ].join("\n");
}
