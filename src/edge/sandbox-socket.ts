/**
 * A connection to a port of a sandbox, TCP or TLS. What cannot be sent at once waits here; the owner sees how much
 * waits and holds back its source. Bytes received before somebody listens are kept, with the sandbox held back.
 */
import type { Socket, SocketHandler } from "bun";
import { EDGE_CLOSE_MS, EDGE_KEEPALIVE_MS } from "./limits.ts";

export interface SandboxSocketListener {
  data(bytes: Buffer<ArrayBuffer>): void;
  /** All that waited has been sent. */
  drained(): void;
  /** Called once, however the connection ended. */
  closed(): void;
}

/** Where to, and how. */
interface Dialled {
  host: string;
  port: number;
  /** The name that a service with TLS is asked for. Undefined: no TLS. */
  tlsName: string | undefined;
  /** Nobody wants the connection once any of these is aborted, made or in the making. */
  until: readonly AbortSignal[];
}

export class SandboxSocket {
  #socket: Socket<SandboxSocket> | undefined;
  #listener: SandboxSocketListener | undefined;
  #early: Buffer<ArrayBuffer>[] = [];
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #allSent: PromiseWithResolvers<void> | undefined;
  #ending: ReturnType<typeof setTimeout> | undefined;
  #farEnded = false;
  #closed = false;
  #until: readonly AbortSignal[] = [];
  #paused = false;
  readonly #dialled = Promise.withResolvers<SandboxSocket>();
  #open = false;
  readonly #cut = () => {
    if (!this.#open) this.#dialled.reject(new Error("the client or the sandbox left while the connection was made"));
    this.terminate();
  };

  /** One for all connections: a set of functions for each would cost more than dialling. */
  static readonly #HANDLER: SocketHandler<SandboxSocket> = {
    open: (socket) => socket.data.#opened(socket),
    // Its own copy: what a socket hands out is never shared memory, though its type leaves that open.
    data: (socket, bytes) => socket.data.#received(bytes as Buffer<ArrayBuffer>),
    drain: (socket) => socket.data.#flush(),
    end: (socket) => {
      socket.data.#farEnded = true;
    },
    close: (socket) => socket.data.#ended(),
    connectError: (socket, failure) => socket.data.#notOpened(failure),
    // Bun reports a failed connection here and then closes it; the close is what counts.
    error: (socket) => socket.data.terminate(),
  };

  /** Rejects with code ECONNREFUSED when nobody listens there. */
  static dial({ host: hostname, port, tlsName, until }: Dialled): Promise<SandboxSocket> {
    const connection = new SandboxSocket();
    connection.endWith(...until);
    const options = { hostname, port, data: connection, socket: SandboxSocket.#HANDLER };
    // The certificate of a service in a sandbox is its own business; who is spoken to is said by the address.
    const tls = { rejectUnauthorized: false, serverName: tlsName };
    const made = Bun.connect<SandboxSocket>(tlsName === undefined ? options : Object.assign(options, { tls }));
    // With TLS it is there before it is open, and must be cut if nobody waits for that any more.
    made.then(
      (socket) => connection.#made(socket),
      (failure) => connection.#notOpened(failure),
    );
    return connection.#dialled.promise;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
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
    this.#early = [];
    for (const bytes of early) this.#received(bytes);
    if (this.#closed) listener.closed();
    else this.resume();
  }

  /** Puts the listener off; `unread` is what it got but has no use for. */
  unlisten(unread: Buffer<ArrayBuffer>): void {
    this.#listener = undefined;
    if (unread.length > 0) this.#early.unshift(unread);
    this.pause();
  }

  write(bytes: Buffer): void {
    if (this.#closed || this.#ending !== undefined) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waiting.length === 1) this.#send();
  }

  /** For a connection that may be silent for long: it is asked now and then whether it is still there. */
  keepAlive(): void {
    if (!this.#closed) this.#socket?.setKeepAlive(true, EDGE_KEEPALIVE_MS);
  }

  /** Resolves when nothing waits to be sent any more, or never will be. */
  async allSent(): Promise<void> {
    if (this.#waitingBytes === 0 || this.#closed) return;
    this.#allSent ??= Promise.withResolvers();
    await this.#allSent.promise;
  }

  /** Stops reading, so that the sandbox is held back. */
  pause(): void {
    if (this.#closed || this.#paused) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (this.#closed || !this.#paused) return;
    this.#paused = false;
    this.#socket?.resume();
  }

  /** Sends what waits, then closes. A sandbox that does not take it in time is cut off. */
  finish(): void {
    if (this.#closed || this.#ending !== undefined) return;
    if (this.#waiting.length === 0) this.#socket?.end();
    if (this.#closed) return;
    this.#ending = setTimeout(this.#cut, EDGE_CLOSE_MS);
    this.#ending.unref();
    // The far side's close must be seen even if the owner had stopped reading.
    this.resume();
  }

  terminate(): void {
    if (!this.#closed) this.#socket?.terminate();
  }

  /** From now on these signals cut the connection, and no longer those from before. */
  endWith(...until: AbortSignal[]): void {
    if (this.#closed) return;
    this.#release();
    this.#until = until;
    for (const signal of until) signal.addEventListener("abort", this.#cut);
    if (this.#isUnwanted) this.#cut();
  }

  get #isUnwanted(): boolean {
    return this.#until.some(({ aborted }) => aborted);
  }

  #release(): void {
    for (const signal of this.#until) signal.removeEventListener("abort", this.#cut);
  }

  #made(socket: Socket<SandboxSocket>): void {
    if (this.#closed) return;
    this.#socket = socket;
    if (this.#isUnwanted) socket.terminate();
  }

  #opened(socket: Socket<SandboxSocket>): void {
    this.#made(socket);
    this.#open = true;
    this.#dialled.resolve(this);
  }

  #notOpened(failure: unknown): void {
    this.#dialled.reject(failure);
    this.#ended();
  }

  #received(bytes: Buffer<ArrayBuffer>): void {
    if (this.#listener === undefined) this.#early.push(bytes);
    else this.#listener.data(bytes);
  }

  #flush(): void {
    this.#send();
    if (this.#waiting.length > 0) return;
    this.#allSent?.resolve();
    this.#allSent = undefined;
    if (this.#ending !== undefined) this.#socket?.end();
    else this.#listener?.drained();
  }

  #send(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      const sent = this.#socket?.write(next) ?? -1;
      if (sent < 0) return;
      this.#waitingBytes -= sent;
      if (sent < next.length) {
        this.#waiting[0] = next.subarray(sent);
        return;
      }
      this.#waiting.shift();
    }
  }

  #ended(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#open) this.#dialled.reject(new Error("the service hung up before the connection was made"));
    if (this.#ending !== undefined) clearTimeout(this.#ending);
    this.#release();
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#allSent?.resolve();
    this.#listener?.closed();
  }
}
