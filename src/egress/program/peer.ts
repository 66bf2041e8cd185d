/**
 * One end of a connection. What the kernel does not take at once waits here, and whoever writes is told to stop
 * meanwhile; what comes while nobody wants it waits as well. So for each end there is never more than one piece, as
 * the kernel hands it over, in each direction.
 */
import { RELAY_KEEPALIVE_MS } from "../limits.ts";

interface PeerEvents {
  data(bytes: Buffer<ArrayBuffer>): void;
  /** Nothing more comes from it. It may still take something. */
  end(): void;
  /** What waited has been taken. */
  room(): void;
}

/** Who is told of what every peer does. */
export interface PeerOwner {
  /** Bytes wait, or do not any more. */
  held(bytes: number): void;
  /** Something came from it, or was taken by it. */
  moved(): void;
  /** It is gone. `whole`: both ends have said all they wanted. */
  closed(peer: Peer, whole: boolean): void;
}

type PeerSocket = Bun.Socket<Peer | undefined>;

const NOBODY: PeerEvents = { data: () => undefined, end: () => undefined, room: () => undefined };

export class Peer {
  events: PeerEvents = NOBODY;
  readonly #socket: PeerSocket;
  readonly #owner: PeerOwner;
  /** Not taken by the kernel yet. */
  #outgoing: Buffer[] = [];
  /** Came while nobody wanted it. */
  #incoming: Buffer<ArrayBuffer>[] = [];
  #incomingBytes = 0;
  #paused = false;
  #stopped = false;
  #finishing = false;
  #ended = false;
  #endTold = false;
  #isClosed = false;

  constructor(socket: PeerSocket, owner: PeerOwner) {
    this.#socket = socket;
    this.#owner = owner;
    socket.data = this;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, RELAY_KEEPALIVE_MS);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether it has said that nothing more comes. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** False: come back when there is room. */
  write(bytes: Buffer): boolean {
    if (this.#isClosed || this.#finishing) return true;
    if (this.#outgoing.length > 0) {
      this.#hold(bytes);
      return false;
    }
    const taken = this.#socket.write(bytes);
    if (taken === bytes.length) return true;
    // Gone: its end is told by itself.
    if (taken < 0) return false;
    this.#hold(bytes.subarray(taken));
    return false;
  }

  #hold(bytes: Buffer): void {
    // A small rest must not keep the large piece that it is part of.
    const kept = bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes;
    this.#outgoing.push(kept);
    this.#owner.held(kept.length);
  }

  /** Nothing more is written: the other end hears so after all that waits. */
  finish(): void {
    if (this.#isClosed || this.#finishing) return;
    this.#finishing = true;
    if (this.#outgoing.length === 0) this.#socket.shutdown();
  }

  /** Nobody wants anything of it any more. */
  close(): void {
    this.events = NOBODY;
    if (!this.#isClosed) this.#socket.end();
  }

  /** At once, whatever waits. */
  cut(): void {
    if (!this.#isClosed) this.#socket.terminate();
  }

  pause(): void {
    this.#paused = true;
    this.#steer();
  }

  resume(): void {
    this.#paused = false;
    this.#deliver();
    this.#steer();
  }

  /** Besides being paused: nothing is read of it until it may go on. */
  stop(): void {
    this.#stopped = true;
    this.#steer();
  }

  goOn(): void {
    this.#stopped = false;
    this.#deliver();
    this.#steer();
  }

  /** These bytes come again, before all others. */
  putBack(bytes: Buffer<ArrayBuffer>): void {
    if (bytes.length === 0) return;
    this.#incoming.unshift(bytes);
    this.#countIncoming();
  }

  get #isBlocked(): boolean {
    return this.#paused || this.#stopped;
  }

  #steer(): void {
    if (this.#isClosed) return;
    if (this.#isBlocked) this.#socket.pause();
    else this.#socket.resume();
  }

  #deliver(): void {
    while (!this.#isBlocked) {
      const bytes = this.#incoming.shift();
      if (bytes === undefined) break;
      this.events.data(bytes);
    }
    this.#countIncoming();
    if (this.#isBlocked || !this.#ended || this.#endTold) return;
    this.#endTold = true;
    this.events.end();
  }

  /** Mostly nothing waits, and nothing is to be told. */
  #countIncoming(): void {
    const bytes = this.#isClosed ? 0 : this.#incoming.reduce((sum, piece) => sum + piece.length, 0);
    const more = bytes - this.#incomingBytes;
    if (more === 0) return;
    this.#incomingBytes = bytes;
    this.#owner.held(more);
  }

  static readonly handlers: Bun.SocketHandler<Peer | undefined> = {
    data: ({ data: peer }, bytes) => {
      if (peer === undefined) return;
      peer.#owner.moved();
      // A socket never hands out shared memory, though its type allows it.
      peer.#incoming.push(bytes as Buffer<ArrayBuffer>);
      peer.#deliver();
    },
    drain: ({ data: peer }) => {
      if (peer !== undefined) peer.#drain();
    },
    end: ({ data: peer }) => {
      if (peer === undefined) return;
      peer.#ended = true;
      peer.#deliver();
    },
    close: ({ data: peer }, error) => {
      if (peer !== undefined) peer.#close(error);
    },
    error: ({ data: peer }) => peer?.cut(),
  };

  #drain(): void {
    this.#owner.moved();
    for (let bytes = this.#outgoing[0]; bytes !== undefined; bytes = this.#outgoing[0]) {
      const taken = this.#socket.write(bytes);
      if (taken < 0) return;
      this.#owner.held(-taken);
      if (taken < bytes.length) {
        this.#outgoing[0] = bytes.subarray(taken);
        return;
      }
      this.#outgoing.shift();
    }
    if (this.#finishing) this.#socket.shutdown();
    else this.events.room();
  }

  #close(error: Error | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const unsent = this.#outgoing.reduce((sum, bytes) => sum + bytes.length, 0);
    this.#outgoing = [];
    this.#countIncoming();
    if (unsent > 0) this.#owner.held(-unsent);
    const whole = error === undefined && unsent === 0;
    // Who waits for more hears of the end; but not as one that was meant.
    if (!whole) this.#owner.closed(this, whole);
    this.#ended = true;
    this.#deliver();
    if (whole) this.#owner.closed(this, whole);
  }
}
