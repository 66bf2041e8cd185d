/** A connection of a peer, without one of the system. */
import { Peer } from "../program/peer.ts";

/** A fake connection that only records whether it is read from. */
export class FakeSocket {
  data: Peer | undefined;
  isRead = true;

  pause(): void {
    this.isRead = false;
  }

  resume(): void {
    this.isRead = true;
  }

  terminate(): void {
    Peer.handlers.close?.(this.socket);
  }

  write(bytes: Buffer): number {
    return bytes.length;
  }

  readonly setNoDelay = () => true;
  readonly setKeepAlive = () => true;

  get socket(): Bun.Socket<Peer | undefined> {
    return this as unknown as Bun.Socket<Peer | undefined>;
  }
}
