/**
 * A restored sandbox gets a new network namespace, without the settings of the old one, and CRIU restores its sockets
 * one by one. Some may be bound to the sandbox's previous address, so that address must exist meanwhile. Until all
 * sockets exist, no packet may arrive: the kernel would answer it with a reset and break the connection. So the
 * interface is connected before the first socket is restored, with packets held back; both exceptions end afterwards.
 * Pure.
 */
import { SANDBOX_ADDRESS } from "../../contract/address-plan.ts";

/** An nftables table inside the sandbox that exists only during the restore. */
const HOLD = "sandlot_hold";

/** Runs in the namespace before an interface is up. */
export const HOLD_COMMAND: readonly string[] = [
  "nft",
  `table inet ${HOLD} { chain input { type filter hook input priority raw; policy drop; }; }`,
];

/** Facts about the sockets of a sandbox that is being restored. */
export interface SocketsBefore {
  address: string;
  connected: boolean;
}

/** The previous address, needed until all sockets are restored; undefined if it is the current one. */
export function addressBefore(before: SocketsBefore, address: string): string | undefined {
  return before.address === address ? undefined : before.address;
}

interface Restored {
  address: string;
  before: SocketsBefore;
  /** A UDP socket has a peer, which may be anywhere. */
  connectedUdp: boolean;
}

/**
 * Shell commands to run inside the sandbox's namespace; undefined when there is nothing to do, as for most. Connections
 * within the sandbox continue. Those to the outside are closed: their other ends have long given up, or belong to the
 * sandbox that this one was copied from. On a kernel that cannot close them, they time out.
 */
export function closeConnectionsScript({ address, before, connectedUdp }: Restored): string | undefined {
  if (!before.connected && !connectedUdp) return undefined;
  const within = ["127.0.0.0/8", "[::1]", SANDBOX_ADDRESS, address, before.address].map((each) => `dst ${each}`);
  const outside = `not ( ${within.join(" or ")} )`;
  const hangUp = `ss --kill --no-header --tcp --udp --numeric state connected '${outside}' > /dev/null || true`;
  return before.connected ? `${hangUp}\nnft delete table inet ${HOLD}` : hangUp;
}
