/**
 * A connection to a port of a sandbox, TCP or TLS. Bytes that cannot be sent at once are buffered; the owner sees how
 * many and pauses its source.
 */
import type { Socket, SocketHandler } from "bun";
import type { Splice, Spliced, SpliceRequest, Splicing } from "../../base/splicing.ts";
import { type HeldBytes, OWN_HELD_BYTES } from "../flow/held-bytes.ts";
import { Reading } from "../flow/reading.ts";
import { descriptorOf } from "../flow/socket-descriptor.ts";
import { UnsentBytes } from "../flow/unsent-bytes.ts";
import { EDGE_CLOSE_MS, EDGE_KEEPALIVE_MS, EDGE_REQUEST_WAITING_MAX_BYTES, EDGE_UNSENT_MAX_BYTES } from "../limits.ts";
import type { SandboxRun } from "../routing/route-table.ts";

/** The kernel's receive buffer for a response that the edge does not read because its client is slow. */
const EDGE_RECEIVED_MAX_BYTES = 64 * 1024;
/** Concurrent splices per sandbox and process. A sandbox whose bodies never end must leave room for others. */
export const EDGE_SPLICED_AT_ONCE_MAX = 4;

export interface SandboxSocketListener {
  /** One of these two is called first, once. The others follow only after `opened`. */
  opened(socket: SandboxSocket): void;
  /** With code ECONNREFUSED when nothing listens there, and ENOTCONN when either end left first. */
  notOpened(failure: unknown): void;
  data(bytes: Buffer<ArrayBuffer>): void;
  /** There is room again after `isFull`. */
  drained(): void;
  /** Called once, however the connection ended. */
  closed(): void;
}

/** Target and options of a connection. */
export interface ConnectOptions {
  /** A TCP port, or a Unix socket. */
  to: { host: string; port: number } | { unix: string };
  /** TLS server name. Undefined: no TLS. */
  tlsName?: string | undefined;
  /** Its end ends the connection, established or not. Absent: no sandbox. */
  run?: SandboxRun | undefined;
  /** Moves long bodies inside the kernel, where possible. */
  splice?: Splice | undefined;
  /** Limits the kernel's buffers of the connection. Absent: the kernel's defaults. */
  buffers?: SocketBuffers | undefined;
}

/** Limits of the kernel's buffers of a connection, by descriptor. */
export interface SocketBuffers {
  /** Received but unread bytes. */
  boundReceived(descriptor: number, bytes: number): void;
  /** Written but unsent bytes. For a listener: of each of its connections. */
  boundUnsent(descriptor: number, bytes: number): void;
}

/** Shared by all connections without a splice, which are most. */
const NO_SPLICINGS: Splicing[] = [];

export class SandboxSocket {
  #socket: Socket<SandboxSocket> | undefined;
  #state: "awaited" | "opened" | "not opened" = "awaited";
  readonly #unsent = new UnsentBytes(EDGE_REQUEST_WAITING_MAX_BYTES);
  /** Nothing more is written; `#ending` limits the time to close. */
  #isEnding = false;
  #ending: ReturnType<typeof setTimeout> | undefined;
  #farEnded = false;
  #closed = false;
  readonly #reading = new Reading(this);
  readonly #run: SandboxRun | undefined;
  readonly #buffers: SocketBuffers | undefined;
  #isBounded = false;
  #isUnwanted = false;
  readonly #splice: Splice | undefined;
  /** At most one per direction. */
  #splicings: Splicing[] = NO_SPLICINGS;

  constructor(
    { to, tlsName, run, splice, buffers }: ConnectOptions,
    private readonly listener: SandboxSocketListener,
  ) {
    this.#run = run;
    this.#splice = tlsName === undefined ? splice : undefined;
    this.#buffers = buffers;
    this.#unsent.chargeTo(this.held);
    if (run?.isOver) {
      this.#ended();
      return;
    }
    run?.connections.add(this);
    this.#connect(to, tlsName);
  }

  /** One handler for all connections: a set of closures per connection would cost more than connecting. */
  static readonly #HANDLER: SocketHandler<SandboxSocket> = {
    open: (socket) => socket.data.#opened(socket),
    // Cast: the memory that a socket hands out is never shared, though its type allows that.
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

  #connect(to: ConnectOptions["to"], tlsName: string | undefined): void {
    const failed = (failure: unknown) => this.#notOpened(failure);
    const socket = SandboxSocket.#HANDLER;
    try {
      if ("unix" in to) Bun.connect<SandboxSocket>({ unix: to.unix, data: this, socket }).catch(failed);
      else if (tlsName === undefined) {
        Bun.connect<SandboxSocket>({ hostname: to.host, port: to.port, data: this, socket }).catch(failed);
      } else {
        // The certificate of a service in a sandbox is not verified: the address identifies the sandbox.
        const tls = { rejectUnauthorized: false, serverName: tlsName };
        const made = Bun.connect<SandboxSocket>({ hostname: to.host, port: to.port, data: this, socket, tls });
        // The socket exists before it is open, and must be closed if the caller has left.
        made.then((one) => this.#made(one), failed);
      }
    } catch (failure) {
      failed(failure);
    }
  }

  get hasSentAll(): boolean {
    return this.#unsent.isEmpty;
  }

  /** The sender must pause until `drained`. */
  get isFull(): boolean {
    return this.#unsent.isFull;
  }

  /** Shared counter of the bytes buffered for this sandbox. */
  get held(): HeldBytes {
    return this.#run?.held ?? OWN_HELD_BYTES;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** The other side ended regularly, instead of breaking off. */
  get peerEnded(): boolean {
    return this.#farEnded;
  }

  /** Owns the buffer from now on: it is freed when it is sent. */
  write(bytes: Buffer<ArrayBuffer>): void {
    if (!this.#closed && !this.#isEnding && this.#socket !== undefined) this.#unsent.send(this.#socket, bytes);
  }

  /** Splices the next bytes to that connection; false: they arrive here instead. `over` is called at the end. */
  spliceTo(to: number, bytes: number, inChunks: boolean, over: (spliced: Spliced) => void): boolean {
    return this.#spliced((from) => ({ from, to, bytes, inChunks, cuts: "from" }), over);
  }

  /** Splices bytes from that connection, after all written bytes. */
  spliceFrom(from: number, bytes: number, over: (spliced: Spliced) => void): boolean {
    if (!this.hasSentAll || this.#isEnding) return false;
    return this.#spliced((to) => ({ from, to, bytes, cuts: "to" }), over);
  }

  #spliced(way: (own: number) => SpliceRequest, over: (spliced: Spliced) => void): boolean {
    const own = descriptorOf(this.#socket);
    if (own === undefined || this.#closed) return false;
    const run = this.#run;
    if (run !== undefined && run.splicings >= EDGE_SPLICED_AT_ONCE_MAX) return false;
    const splicing = this.#splice?.begin(way(own), (spliced) => {
      if (run !== undefined) run.splicings -= 1;
      this.#splicings = this.#splicings.filter((one) => one !== splicing);
      if (this.#closed) this.#release();
      over(spliced);
    });
    if (splicing === undefined) return false;
    if (run !== undefined) run.splicings += 1;
    this.#splicings = [...this.#splicings, splicing];
    return true;
  }

  /** For a connection that may be idle for long: enables TCP keepalive. */
  keepAlive(): void {
    if (!this.#closed) this.#socket?.setKeepAlive(true, EDGE_KEEPALIVE_MS);
  }

  /** Stops reading for a slow client, and limits the kernel's receive buffer. */
  holdBack(): void {
    this.pause();
    const own = this.#isBounded || this.#closed ? undefined : descriptorOf(this.#socket);
    if (own === undefined) return;
    this.#isBounded = true;
    this.#buffers?.boundReceived(own, EDGE_RECEIVED_MAX_BYTES);
  }

  /** Limits the kernel's send buffer for a slow service. */
  expectToSendMuch(): void {
    const own = this.#closed ? undefined : descriptorOf(this.#socket);
    if (own !== undefined) this.#buffers?.boundUnsent(own, EDGE_UNSENT_MAX_BYTES);
  }

  /** Stops reading, which blocks the sandbox. */
  pause(): void {
    this.#reading.hold();
  }

  resume(): void {
    this.#reading.release();
  }

  /** Returns bytes that the listener cannot handle in this turn: it gets them again in a later one. */
  later(bytes: Buffer<ArrayBuffer>): void {
    this.#reading.later(bytes);
  }

  pauseReading(): void {
    if (!this.#closed) this.#socket?.pause();
  }

  resumeReading(): void {
    if (!this.#closed) this.#socket?.resume();
  }

  /** Sends buffered bytes, then closes. A sandbox that does not read them in time is cut off. */
  finish(): void {
    for (const splicing of this.#splicings) splicing.stop();
    if (this.#closed || this.#isEnding) return;
    this.#isEnding = true;
    if (this.hasSentAll) this.#socket?.end();
    if (this.#closed) return;
    this.#ending = setTimeout(() => this.cut(), EDGE_CLOSE_MS);
    this.#ending.unref();
    // The other side's close must be seen even if the owner had stopped reading.
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

  /** Ends the connection, established or not. */
  cut(): void {
    this.#isUnwanted = true;
    this.#giveUp(notConnected("the client or the sandbox left while the connection was made"));
    this.terminate();
  }

  /** Not during a splice, which must also end with the run, and be counted. */
  #release(): void {
    if (this.#splicings.length === 0) this.#run?.connections.delete(this);
  }

  #giveUp(failure: unknown): void {
    if (this.#state !== "awaited") return;
    this.#state = "not opened";
    this.listener.notOpened(failure);
  }

  #made(socket: Socket<SandboxSocket>): void {
    if (this.#closed) return;
    this.#socket = socket;
    if (this.#isUnwanted) socket.terminate();
  }

  #opened(socket: Socket<SandboxSocket>): void {
    this.#made(socket);
    if (this.#closed || this.#state !== "awaited") return;
    this.#state = "opened";
    this.listener.opened(this);
  }

  #notOpened(failure: unknown): void {
    this.#giveUp(failure);
    this.#ended();
  }

  take(bytes: Buffer<ArrayBuffer>): void {
    if (this.#state === "opened") this.listener.data(bytes);
  }

  #flush(): void {
    if (this.#socket === undefined) return;
    const hasRoom = this.#unsent.flush(this.#socket);
    if (this.#isEnding) {
      if (this.hasSentAll) this.#socket.end();
    } else if (hasRoom) this.listener.drained();
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#giveUp(notConnected("the service hung up before the connection was made"));
    if (this.#ending !== undefined) clearTimeout(this.#ending);
    this.#release();
    this.#unsent.drop();
    this.#reading.end(() => {
      if (this.#state === "opened") this.listener.closed();
    });
  }
}

function notConnected(message: string): Error {
  return Object.assign(new Error(message), { code: "ENOTCONN" });
}
