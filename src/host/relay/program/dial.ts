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
  const give = () => {
    opened.resolve(undefined);
    failed();
  };
  const socket: Bun.SocketHandler<Peer | undefined> = {
    ...Peer.handlers,
    open: (socket) => {
      if (isLate) {
        socket.terminate();
        return failed();
      }
      const peer = new Peer(socket, owner);
      peer.pause();
      opened.resolve(peer);
    },
    connectError: give,
  };
  try {
    // Its end is told by the handlers; a refusal before any socket was made is told here.
    Bun.connect<Peer | undefined>({ hostname: address, port, allowHalfOpen: true, data: undefined, socket }).catch(
      () => undefined,
    );
    return await opened.promise;
  } finally {
    clearTimeout(late);
  }
}
