/**
 * One end of a connection, with backpressure. Bytes that the kernel does not accept at once are buffered, and the
 * writer must pause. Bytes that arrive while paused are buffered too. So each end buffers at most one chunk, as the
 * kernel delivers it, per direction.
 */

/** TCP keepalive probes of an idle connection start after this time. */
const RELAY_KEEPALIVE_MS = 60_000;

interface PeerEvents {
  data(bytes: Buffer<ArrayBuffer>): void;
  /** Nothing more comes from it. It may still take something. */
  end(): void;
  /** All buffered bytes are written. */
  room(): void;
}

/** Receives the events of every peer. */
export interface PeerOwner {
  /** The number of buffered bytes changed by this much. */
  held(bytes: number): void;
  moved(): void;
  /** The peer is closed. `whole`: both directions ended in order. */
  closed(peer: Peer, whole: boolean): void;
  /** Ends the whole connection that the peer is a part of. */
  cut(): void;
}

type PeerSocket = Bun.Socket<Peer | undefined>;

/** One side of a TLS handshake. */
export type TlsSide = Bun.TLSOptions & {
  isServer: boolean;
  /** Protocols to offer or to accept (ALPN); empty: none. */
  protocols: readonly string[];
};

/** `protocol`: the agreed one (ALPN), if any. */
export type TlsOutcome = { protocol: string | undefined } | { failure: string };

const IGNORE_EVENTS: PeerEvents = { data: () => undefined, end: () => undefined, room: () => undefined };

export class Peer {
  events: PeerEvents = IGNORE_EVENTS;
  /** Bytes that the kernel has not accepted yet. */
  #outgoing: Buffer[] = [];
  /** Received while paused. */
  #incoming: Buffer<ArrayBuffer>[] = [];
  #incomingBytes = 0;
  #paused = false;
  #isOverShare = false;
  #finishing = false;
  #ended = false;
  #isEndReported = false;
  #isClosed = false;
  #handshake: PromiseWithResolvers<TlsOutcome> | undefined;

  constructor(
    private socket: PeerSocket,
    private readonly owner: PeerOwner,
  ) {
    socket.data = this;
    socket.setNoDelay(true);
    socket.setKeepAlive(true, RELAY_KEEPALIVE_MS);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether the other side has sent its end. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** False: wait for `room`. */
  write(bytes: Buffer): boolean {
    if (this.#isClosed || this.#finishing) return true;
    if (this.#outgoing.length > 0) {
      this.#hold(bytes);
      return false;
    }
    const taken = this.socket.write(bytes);
    if (taken === bytes.length) return true;
    // The socket is closed; its `close` event follows.
    if (taken < 0) return false;
    this.#hold(bytes.subarray(taken));
    return false;
  }

  #hold(bytes: Buffer): void {
    // Copy a small remainder, so that it does not retain the large chunk.
    const kept = bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes;
    this.#outgoing.push(kept);
    this.owner.held(kept.length);
  }

  /** Ends the sending direction after all buffered bytes. */
  finish(): void {
    if (this.#isClosed || this.#finishing) return;
    this.#finishing = true;
    if (this.#outgoing.length === 0) this.socket.shutdown();
  }

  /** Closes the peer and drops its further events. */
  close(): void {
    this.events = IGNORE_EVENTS;
    if (!this.#isClosed) this.socket.end();
  }

  /** Closes at once and drops buffered bytes. */
  cut(): void {
    if (!this.#isClosed) this.socket.terminate();
  }

  /**
   * Continues the connection under TLS, with a handshake. Afterwards it is paused, and `write` and `data` are about
   * what is inside TLS. A failed handshake closes the connection.
   */
  async startTls({ isServer, protocols, ...tls }: TlsSide): Promise<TlsOutcome> {
    // The other end sent something that is not a part of the handshake.
    if (this.#isClosed || this.#incoming.length > 0) return { failure: "the connection does not begin with TLS" };
    const outcome = Promise.withResolvers<TlsOutcome>();
    this.#handshake = outcome;
    // What follows the handshake at once is kept until `resume`.
    this.#paused = true;
    this.socket.resume();
    const ALPNProtocols = protocols.map((name) => String.fromCharCode(name.length) + name).join("");
    // The declared options lack the side.
    const side: object = { isServer };
    const [outer, inner] = this.socket.upgradeTLS<Peer | undefined>({
      ...side,
      data: this,
      tls: ALPNProtocols === "" ? tls : { ...tls, ALPNProtocols },
      socket: {
        ...Peer.handlers,
        handshake: (socket, isWhole, error) => {
          const { alpnProtocol } = socket as unknown as { alpnProtocol: string | false | null };
          outcome.resolve(isWhole ? { protocol: alpnProtocol || undefined } : { failure: failureOf(error) });
          if (!isWhole) socket.terminate();
        },
      },
    });
    // Its events are about what is outside TLS.
    outer.data = undefined;
    this.socket = inner;
    const result = await outcome.promise;
    this.#handshake = undefined;
    this.#steer();
    return result;
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

  /** Like `pause`, but independent of it: set while the sandbox exceeds its memory share. */
  pauseForShare(): void {
    this.#isOverShare = true;
    this.#steer();
  }

  resumeForShare(): void {
    this.#isOverShare = false;
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
    return this.#paused || this.#isOverShare;
  }

  #steer(): void {
    if (this.#isClosed) return;
    const isBlocked = this.#handshake === undefined ? this.#isBlocked : this.#isOverShare;
    if (isBlocked) this.socket.pause();
    else this.socket.resume();
  }

  #deliver(): void {
    while (!this.#isBlocked) {
      const bytes = this.#incoming.shift();
      if (bytes === undefined) break;
      this.events.data(bytes);
    }
    this.#countIncoming();
    if (this.#isBlocked || !this.#ended || this.#isEndReported) return;
    this.#isEndReported = true;
    this.events.end();
  }

  /** Reports the change of buffered bytes; usually there is none. */
  #countIncoming(): void {
    const bytes = this.#isClosed ? 0 : this.#incoming.reduce((sum, piece) => sum + piece.length, 0);
    const more = bytes - this.#incomingBytes;
    if (more === 0) return;
    this.#incomingBytes = bytes;
    this.owner.held(more);
  }

  static readonly handlers: Bun.SocketHandler<Peer | undefined> = {
    data: ({ data }, bytes) => {
      Peer.#handle(data, (peer) => {
        peer.owner.moved();
        // A socket never hands out shared memory, though its type allows it.
        peer.#incoming.push(bytes as Buffer<ArrayBuffer>);
        peer.#deliver();
      });
    },
    drain: ({ data }) => Peer.#handle(data, (peer) => peer.#drain()),
    end: ({ data }) => {
      Peer.#handle(data, (peer) => {
        peer.#ended = true;
        peer.#deliver();
      });
    },
    close: ({ data }, error) => Peer.#handle(data, (peer) => peer.#close(error)),
    error: ({ data: peer }) => peer?.cut(),
  };

  /** An exception ends the connection, which would otherwise stay half-open and count. */
  static #handle(peer: Peer | undefined, event: (peer: Peer) => void): void {
    if (peer === undefined) return;
    try {
      event(peer);
    } catch (thrown) {
      peer.events = IGNORE_EVENTS;
      peer.owner.cut();
      throw thrown;
    }
  }

  #drain(): void {
    this.owner.moved();
    for (let bytes = this.#outgoing[0]; bytes !== undefined; bytes = this.#outgoing[0]) {
      const taken = this.socket.write(bytes);
      if (taken < 0) return;
      this.owner.held(-taken);
      if (taken < bytes.length) {
        this.#outgoing[0] = bytes.subarray(taken);
        return;
      }
      this.#outgoing.shift();
    }
    if (this.#finishing) this.socket.shutdown();
    else this.events.room();
  }

  #close(error: Error | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#handshake?.resolve({ failure: "the connection was closed during the TLS handshake" });
    const unsent = this.#outgoing.reduce((sum, bytes) => sum + bytes.length, 0);
    this.#outgoing = [];
    this.#countIncoming();
    if (unsent > 0) this.owner.held(-unsent);
    const whole = error === undefined && unsent === 0;
    // The reader gets an end event too, but after a broken connection the owner learns of it first and can cut the
    // flow.
    if (!whole) this.owner.closed(this, whole);
    this.#ended = true;
    try {
      this.#deliver();
    } finally {
      if (whole) this.owner.closed(this, whole);
    }
  }
}

/** OpenSSL's messages have the form `error:code:library:function:REASON`. */
function failureOf(error: Error | null): string {
  const text = error?.message.trim() ?? "";
  if (text === "") return "the TLS handshake failed";
  return text.startsWith("error:") ? (text.split(":").at(-1) ?? text).toLowerCase().replaceAll("_", " ") : text;
}
