/**
 * A sandbox that is restored gets a new network namespace, without the settings of the one before, and its sockets come
 * back one by one. Some may be bound to the address that the sandbox had, so while they are restored it has to be
 * there. And until all of them are, no packet may arrive: one that finds the other end missing would break the
 * connection. So it is plugged in before there is a socket, with packets held back, and both exceptions end
 * afterwards. Pure.
 */
import { SANDBOX_ADDRESS } from "../../contract/address-plan.ts";

/** A table inside the sandbox, for as long as it is being restored. */
const HOLD = "sandlot_hold";

/** In the namespace, before an interface is up. */
export const HOLD_COMMAND: readonly string[] = [
  "nft",
  `table inet ${HOLD} { chain input { type filter hook input priority raw; policy drop; }; }`,
];

/** What is known of the sockets of a sandbox that is being restored. */
export interface SocketsBefore {
  /** Where the sandbox was reached. */
  address: string;
  /** Whether there are TCP connections among them. */
  connected: boolean;
}

/** The one that has to be there as well until all sockets are; undefined: it is the same one. */
export function addressBefore(before: SocketsBefore, address: string): string | undefined {
  return before.address === address ? undefined : before.address;
}

/** What the sandbox is now, and what is known of it after its restore. */
interface Restored {
  address: string;
  before: SocketsBefore;
  /** A UDP socket of it has a peer, which may be anywhere. */
  connectedUdp: boolean;
}

/**
 * Shell commands inside the namespace of the sandbox; undefined when there is nothing to do, as for most. Connections
 * within the sandbox go on. Those to the outside are closed: their other ends have long given up, or belong to the
 * sandbox that this one is a copy of. On a kernel that cannot close them they lead nowhere and time out.
 */
export function hangUpScript({ address, before, connectedUdp }: Restored): string | undefined {
  if (!before.connected && !connectedUdp) return undefined;
  const within = ["127.0.0.0/8", "[::1]", SANDBOX_ADDRESS, address, before.address].map((each) => `dst ${each}`);
  const outside = `not ( ${within.join(" or ")} )`;
  const hangUp = `ss --kill --no-header --tcp --udp --numeric state connected '${outside}' > /dev/null || true`;
  return before.connected ? `${hangUp}\nnft delete table inet ${HOLD}` : hangUp;
}
