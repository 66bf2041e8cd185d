/** Opens connections to addresses that somebody has judged. */
import { Peer, type PeerOwner } from "./peer.ts";

interface Dialled {
  address: string;
  port: number;
  timeoutMs: number;
  /** Nothing came of it, and nothing is left of it. The kernel may need much longer than anybody waits to say so. */
  failed: () => void;
}

/** Undefined: nobody answers there, or not in time. The peer that it answers is paused. */
export async function dial(owner: PeerOwner, { address, port, timeoutMs, failed }: Dialled): Promise<Peer | undefined> {
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
    // What comes of it is told by the handlers; that there was no socket at all, here.
    Bun.connect<Peer | undefined>({ hostname: address, port, allowHalfOpen: true, data: undefined, socket }).catch(
      fail,
    );
    return await opened.promise;
  } finally {
    clearTimeout(late);
  }
}
