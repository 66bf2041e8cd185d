/** Opens connections to addresses; the caller has checked that the policy allows them. */
import { Peer, type PeerOwner } from "./peer.ts";

interface DialOptions {
  address: string;
  port: number;
  timeoutMs: number;
  /** Called once the failed attempt holds no socket any more. The kernel may report that long after the timeout. */
  failed: () => void;
}

/** Undefined: the connection failed or timed out. The returned peer is paused. */
export async function dial(
  owner: PeerOwner,
  { address, port, timeoutMs, failed }: DialOptions,
): Promise<Peer | undefined> {
  const opened = Promise.withResolvers<Peer | undefined>();
  let isLate = false;
  const late = setTimeout(() => {
    isLate = true;
    opened.resolve(undefined);
  }, timeoutMs);
  let isSettled = false;
  const fail = () => {
    opened.resolve(undefined);
    if (!isSettled) failed();
    isSettled = true;
  };
  const socket: Bun.SocketHandler<Peer | undefined> = {
    ...Peer.handlers,
    open: (socket) => {
      if (isLate) {
        socket.terminate();
        return fail();
      }
      isSettled = true;
      const peer = new Peer(socket, owner);
      peer.pause();
      opened.resolve(peer);
    },
    connectError: fail,
  };
  try {
    // The handlers report the result; only the failure to create a socket arrives here.
    Bun.connect<Peer | undefined>({ hostname: address, port, allowHalfOpen: true, data: undefined, socket }).catch(
      fail,
    );
    return await opened.promise;
  } finally {
    clearTimeout(late);
  }
}
