/**
 * A connection to a port of a sandbox, TCP or TLS. What cannot be sent at once waits here; the owner sees how much
 * waits and holds back its source. Bytes received before somebody listens are kept, with the sandbox held back.
 */
import type { Socket, SocketHandler } from "bun";
import type { Splice, Spliced, Splicing, Way } from "../../base/splicing.ts";
import { type HeldBytes, OWN_HELD_BYTES } from "../front/held-bytes.ts";
import { Reading } from "../front/reading.ts";
import { releaseBufferOf } from "../front/release-piece.ts";
import { descriptorOf } from "../front/socket-descriptor.ts";
import { EDGE_CLOSE_MS, EDGE_KEEPALIVE_MS, EDGE_REQUEST_WAITING_MAX_BYTES, EDGE_UNSENT_MAX_BYTES } from "../limits.ts";
import { endingOf, knownEnding } from "./socket-endings.ts";

/** What the kernel keeps of an answer that the edge does not read because its client does not keep up. */
const EDGE_RECEIVED_MAX_BYTES = 64 * 1024;
/** Of one sandbox, in one process. One whose bodies never end must leave room for those of others. */
export const EDGE_SPLICED_AT_ONCE_MAX = 4;

export interface SandboxSocketListener {
  data(bytes: Buffer<ArrayBuffer>): void;
  /** All that waited has been sent. */
  drained(): void;
  /** Called once, however the connection ended. */
  closed(): void;
}

/** Where to, and how. */
export interface Dialled {
  /** A port of a machine, or a socket of this one. */
  to: { host: string; port: number } | { unix: string };
  /** The name that a service with TLS is asked for. Undefined: no TLS. */
  tlsName: string | undefined;
  /** Nobody wants the connection once any of these is aborted, made or in the making. */
  until: readonly AbortSignal[];
  /** Moves long bodies within the kernel, where it can. */
  splice?: Splice | undefined;
  /** Bounds the kernel's buffers of a connection; if not given, the kernel does as it likes. */
  buffers?: SocketBuffers | undefined;
}

/** What the kernel keeps of a connection, by its descriptor. */
export interface SocketBuffers {
  /** Of what came and was not read. */
  boundReceived(descriptor: number, bytes: number): void;
  /** Of what was written and is not on its way yet. Of a listener, for each of its connections. */
  boundUnsent(descriptor: number, bytes: number): void;
}

/** Who waits for a connection to be made: one of the two is called, once. */
interface Awaiting {
  opened(socket: SandboxSocket): void;
  /** With code ECONNREFUSED when nobody listens there. */
  notOpened(failure: unknown): void;
}

interface Waiting {
  bytes: Buffer;
  /** To be freed when it is sent. */
  owned: Buffer<ArrayBuffer> | undefined;
}

/** Most connections never have one. */
const NO_SPLICINGS: Splicing[] = [];

export class SandboxSocket {
  #socket: Socket<SandboxSocket> | undefined;
  #listener: SandboxSocketListener | undefined;
  #awaiting: Awaiting | undefined;
  #early: Buffer<ArrayBuffer>[] | undefined;
  #waiting: Waiting[] | undefined;
  #waitingBytes = 0;
  /** Nothing more is written; until when it may take to close. */
  #isEnding = false;
  #ending: ReturnType<typeof setTimeout> | undefined;
  #farEnded = false;
  #closed = false;
  #until: readonly AbortSignal[] = [];
  readonly #reading = new Reading(this);
  #held = OWN_HELD_BYTES;
  #buffers: SocketBuffers | undefined;
  #isBounded = false;
  #isUnwanted = false;
  #splice: Splice | undefined;
  /** At most one for each direction. */
  #splicings: Splicing[] = NO_SPLICINGS;

  private constructor(awaiting: Awaiting) {
    this.#awaiting = awaiting;
  }

  /** One for all connections: a set of functions for each would cost more than dialling. */
  static readonly #HANDLER: SocketHandler<SandboxSocket> = {
    open: (socket) => socket.data.#opened(socket),
    // Its own copy: what a socket hands out is never shared memory, though its type leaves that open.
    data: (socket, bytes) => socket.data.#reading.data(bytes as Buffer<ArrayBuffer>),
    drain: (socket) => socket.data.#flush(),
    end: (socket) => {
      socket.data.#farEnded = true;
    },
    close: (socket) => socket.data.#ended(),
    connectError: (socket, failure) => socket.data.#notOpened(failure),
    // Bun reports a failed connection here and then closes it; the close is what counts.
    error: (socket) => socket.data.#break(),
  };

  static begin({ to, tlsName, until, splice, buffers }: Dialled, awaiting: Awaiting): SandboxSocket {
    const connection = new SandboxSocket(awaiting);
    if (tlsName === undefined) connection.#splice = splice;
    connection.#buffers = buffers;
    connection.endWith(...until);
    connection.#connect(to, tlsName);
    return connection;
  }

  /** Rejects with code ECONNREFUSED when nobody listens there. */
  static dial(dialled: Dialled): Promise<SandboxSocket> {
    return new Promise((opened, notOpened) => {
      SandboxSocket.begin(dialled, { opened, notOpened });
    });
  }

  #connect(to: Dialled["to"], tlsName: string | undefined): void {
    // A signal in `until` was already aborted.
    if (this.#isUnwanted) {
      this.#ended();
      return;
    }
    const failed = (failure: unknown) => this.#notOpened(failure);
    const socket = SandboxSocket.#HANDLER;
    try {
      if ("unix" in to) Bun.connect<SandboxSocket>({ unix: to.unix, data: this, socket }).catch(failed);
      else if (tlsName === undefined) {
        Bun.connect<SandboxSocket>({ hostname: to.host, port: to.port, data: this, socket }).catch(failed);
      } else {
        // The certificate of a service in a sandbox is its own business; who is spoken to is said by the address.
        const tls = { rejectUnauthorized: false, serverName: tlsName };
        const made = Bun.connect<SandboxSocket>({ hostname: to.host, port: to.port, data: this, socket, tls });
        // It is there before it is open, and must be cut if nobody waits for that any more.
        made.then((one) => this.#made(one), failed);
      }
    } catch (failure) {
      failed(failure);
    }
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** So much waits that whoever sends it is to be held back until `drained`. */
  get isFull(): boolean {
    return this.#waitingBytes > this.held.limit(EDGE_REQUEST_WAITING_MAX_BYTES);
  }

  /** With what else is held for this sandbox. */
  get held(): HeldBytes {
    return this.#held;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** The far side said that it has sent all, rather than break off. */
  get farEnded(): boolean {
    return this.#farEnded;
  }

  /** From now on this listener hears of the connection, first of what arrived before. */
  listen(listener: SandboxSocketListener): void {
    this.#listener = listener;
    const early = this.#early;
    this.#early = undefined;
    if (early !== undefined) for (const bytes of early) this.take(bytes);
    if (this.#closed) listener.closed();
    else this.resume();
  }

  write(bytes: Buffer): void {
    this.#write(bytes, undefined);
  }

  /** The same for bytes of a buffer of which nobody else holds any part: it is freed when it is sent. */
  pass(bytes: Buffer<ArrayBuffer>): void {
    this.#write(bytes, bytes);
  }

  /** What comes next goes to that connection past this; false: it comes here. `over` is called when it is over. */
  spliceTo(to: number, bytes: number, over: (spliced: Spliced) => void, { inChunks = false } = {}): boolean {
    return this.#spliced((from) => ({ from, to, bytes, inChunks, cuts: "from" }), over);
  }

  /** The same for what comes from there, behind all that was written. */
  spliceFrom(from: number, bytes: number, over: (spliced: Spliced) => void): boolean {
    if (this.#waiting !== undefined || this.#isEnding) return false;
    return this.#spliced((to) => ({ from, to, bytes, cuts: "to" }), over);
  }

  #spliced(way: (own: number) => Way, over: (spliced: Spliced) => void): boolean {
    const own = descriptorOf(this.#socket);
    if (own === undefined || this.#closed) return false;
    const endings = this.#until.map(endingOf);
    if (endings.some(({ splicings }) => splicings >= EDGE_SPLICED_AT_ONCE_MAX)) return false;
    const splicing = this.#splice?.begin(way(own), (spliced) => {
      for (const ending of endings) ending.splicings -= 1;
      this.#splicings = this.#splicings.filter((one) => one !== splicing);
      if (this.#closed) this.#release();
      over(spliced);
    });
    if (splicing === undefined) return false;
    for (const ending of endings) ending.splicings += 1;
    this.#splicings = [...this.#splicings, splicing];
    return true;
  }

  /** For a connection that may be silent for long: the kernel asks now and then whether the far side is still there. */
  keepAlive(): void {
    if (!this.#closed) this.#socket?.setKeepAlive(true, EDGE_KEEPALIVE_MS);
  }

  /** Stops reading what a client does not take, and has the kernel keep little of it. */
  holdBack(): void {
    this.pause();
    const own = this.#isBounded || this.#closed ? undefined : descriptorOf(this.#socket);
    if (own === undefined) return;
    this.#isBounded = true;
    this.#buffers?.boundReceived(own, EDGE_RECEIVED_MAX_BYTES);
  }

  /** Has the kernel keep little of what this service does not take. */
  expectToSendMuch(): void {
    const own = this.#closed ? undefined : descriptorOf(this.#socket);
    if (own !== undefined) this.#buffers?.boundUnsent(own, EDGE_UNSENT_MAX_BYTES);
  }

  /** Stops reading, so that the sandbox is held back. */
  pause(): void {
    this.#reading.hold();
  }

  resume(): void {
    this.#reading.release();
  }

  /** The listener got these, and has done enough for one turn: it gets them again in another. */
  later(bytes: Buffer<ArrayBuffer>): void {
    this.#reading.later(bytes);
  }

  stopReading(): void {
    if (!this.#closed) this.#socket?.pause();
  }

  goOnReading(): void {
    if (!this.#closed) this.#socket?.resume();
  }

  /** Sends what waits, then closes. A sandbox that does not take it in time is cut off. */
  finish(): void {
    for (const splicing of this.#splicings) splicing.stop();
    if (this.#closed || this.#isEnding) return;
    this.#isEnding = true;
    if (this.#waiting === undefined) this.#socket?.end();
    if (this.#closed) return;
    this.#ending = setTimeout(() => this.cut(), EDGE_CLOSE_MS);
    this.#ending.unref();
    // The far side's close must be seen even if the owner had stopped reading.
    this.resume();
  }

  terminate(): void {
    this.#reading.drop();
    this.#break();
  }

  #break(): void {
    for (const splicing of this.#splicings) splicing.cut();
    if (!this.#closed) this.#socket?.terminate();
  }

  /** Nobody wants it any more, made or in the making. */
  cut(): void {
    this.#isUnwanted = true;
    this.#awaited()?.notOpened(new Error("the client or the sandbox left while the connection was made"));
    this.terminate();
  }

  /** From now on these signals cut the connection, and no longer those from before. */
  endWith(...until: AbortSignal[]): void {
    if (this.#closed) return;
    this.#release();
    this.#until = until;
    for (const signal of until) {
      if (signal.aborted) {
        this.cut();
        continue;
      }
      const ending = endingOf(signal);
      ending.sockets.add(this);
      this.#held = ending.held;
    }
  }

  /** Not while bytes are still moved: that has to end with the signals, too, and to be counted. */
  #release(): void {
    if (this.#splicings.length > 0) return;
    for (const signal of this.#until) knownEnding(signal)?.sockets.delete(this);
  }

  #awaited(): Awaiting | undefined {
    const awaiting = this.#awaiting;
    this.#awaiting = undefined;
    return awaiting;
  }

  #made(socket: Socket<SandboxSocket>): void {
    if (this.#closed) return;
    this.#socket = socket;
    if (this.#isUnwanted) socket.terminate();
  }

  #opened(socket: Socket<SandboxSocket>): void {
    this.#made(socket);
    if (!this.#closed) this.#awaited()?.opened(this);
  }

  #notOpened(failure: unknown): void {
    this.#awaited()?.notOpened(failure);
    this.#ended();
  }

  take(bytes: Buffer<ArrayBuffer>): void {
    if (this.#listener === undefined) this.#early = [...(this.#early ?? []), bytes];
    else this.#listener.data(bytes);
  }

  #write(bytes: Buffer, owned: Waiting["owned"]): void {
    if (this.#closed || this.#isEnding) return;
    if (this.#waiting !== undefined) {
      this.#waiting.push({ bytes, owned });
      this.#waits(bytes.length);
      return;
    }
    const sent = Math.max(this.#socket?.write(bytes) ?? 0, 0);
    if (sent === bytes.length) releaseBufferOf(owned);
    else {
      this.#waiting = [{ bytes: bytes.subarray(sent), owned }];
      this.#waits(bytes.length - sent);
    }
  }

  #waits(bytes: number): void {
    this.#waitingBytes += bytes;
    this.#held.add(bytes);
  }

  #flush(): void {
    if (this.#waiting !== undefined && !this.#sendWaiting(this.#waiting)) return;
    this.#waiting = undefined;
    if (this.#isEnding) this.#socket?.end();
    else this.#listener?.drained();
  }

  /** True: all of it has been sent. */
  #sendWaiting(waiting: Waiting[]): boolean {
    for (;;) {
      const [next] = waiting;
      if (next === undefined) return true;
      const { bytes, owned } = next;
      const sent = Math.max(this.#socket?.write(bytes) ?? 0, 0);
      this.#waits(-sent);
      if (sent < bytes.length) {
        next.bytes = bytes.subarray(sent);
        return false;
      }
      waiting.shift();
      releaseBufferOf(owned);
    }
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#awaited()?.notOpened(new Error("the service hung up before the connection was made"));
    if (this.#ending !== undefined) clearTimeout(this.#ending);
    this.#release();
    this.#waiting = undefined;
    this.#waits(-this.#waitingBytes);
    this.#reading.end(() => this.#listener?.closed());
  }
}
