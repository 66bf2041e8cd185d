/**
 * Where clients connect: a listener that reads HTTP/1.1 itself, and with TLS HTTP/2 as well. Bun's own server would
 * drop bodies of GET and HEAD unseen, and makes objects of every request that most of them have no use for.
 */
import type { Socket, SocketHandler, TCPSocketListener, TLSOptions } from "bun";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MS } from "../limits.ts";
import type { ClientRequest } from "./client-request.ts";
import { Http1Connection, type Http1Owner } from "./http1-connection.ts";
import { Http2Connection } from "./http2-connection.ts";
import { Http2Sessions } from "./http2-sessions.ts";
import { descriptorOf } from "./socket-descriptor.ts";

/** So often connections are looked at for both. */
const EDGE_IDLE_LOOK_EVERY_MS = 2_000;

interface FrontOptions {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  reusePort?: boolean;
  /** How long a connection may be silent between two requests, if not for the usual time. */
  idleMs?: number;
  /** Answers the request; must not throw. */
  handle(request: ClientRequest): void;
}

/** As Bun wants them: each with its length before it. */
const PROTOCOLS = Buffer.from("\x02h2\x08http/1.1", "latin1");
const HTTP2 = "h2";
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1)$/;

export class Front implements Http1Owner {
  readonly #listener: TCPSocketListener<Connection>;
  readonly #connections = new Set<Connection>();
  readonly #http2: Http2Sessions;
  readonly #looking: ReturnType<typeof setInterval>;
  readonly #empty = Promise.withResolvers<void>();
  readonly handle: (request: ClientRequest) => void;
  readonly isSecure: boolean;
  readonly idleMs: number;
  isStopping = false;

  /** Throws when it cannot listen. */
  constructor({ hostname, port, tls, reusePort = false, idleMs = EDGE_IDLE_MS, handle }: FrontOptions) {
    this.handle = handle;
    this.idleMs = idleMs;
    this.isSecure = tls !== undefined;
    this.#http2 = new Http2Sessions(handle);
    const options = { hostname, port, reusePort, socket: this.#handler() };
    // Bun knows the protocols, its types do not.
    const withTls = { ...tls, ALPNProtocols: PROTOCOLS } as TLSOptions;
    this.#listener = Bun.listen<Connection>(tls === undefined ? options : Object.assign(options, { tls: withTls }));
    this.#looking = setInterval(() => this.#look(), EDGE_IDLE_LOOK_EVERY_MS);
    this.#looking.unref();
  }

  get port(): number {
    return this.#listener.port;
  }

  /** Of the listener. */
  get descriptor(): number | undefined {
    return descriptorOf(this.#listener);
  }

  /** Only programs of this machine can connect to it. */
  get isLocal(): boolean {
    return LOOPBACK.test(this.#listener.hostname);
  }

  /** Requests that are being answered, and tunnels. */
  get pendingRequests(): number {
    let pending = this.#http2.pending;
    for (const { http1 } of this.#connections) if (http1?.isBusy === true) pending += 1;
    return pending;
  }

  /** Takes no more connections. Resolves when there are none any more; unless `force`, what has begun is finished. */
  async stop(force: boolean): Promise<void> {
    this.isStopping = true;
    this.#listener.stop();
    if (force) for (const connection of [...this.#connections]) connection.cut();
    else {
      this.#http2.finish();
      for (const { http1 } of [...this.#connections]) http1?.finish();
    }
    this.#leaveIfEmpty();
    await this.#empty.promise;
  }

  #handler(): SocketHandler<Connection> {
    return {
      open: (socket) => {
        const connection = new Connection(socket);
        socket.data = connection;
        this.#connections.add(connection);
        if (!this.isSecure) connection.http1 = new Http1Connection(socket, this);
      },
      handshake: (socket, isDone) => {
        const { data } = socket;
        if (!isDone) socket.terminate();
        else if (data.http1 === undefined && data.http2 === undefined) this.#speak(socket);
      },
      // Its own copy: what a socket hands out is never shared memory, though its type leaves that open.
      data: ({ data }, bytes) => data.data(bytes as Buffer<ArrayBuffer>),
      drain: ({ data }) => data.drained(),
      close: ({ data }) => {
        this.#connections.delete(data);
        data.closed();
        if (this.isStopping) this.#leaveIfEmpty();
      },
      error: (socket) => socket.terminate(),
    };
  }

  /** TLS is there, and with it what the client wants to speak. */
  #speak(socket: Socket<Connection>): void {
    if (socket.alpnProtocol !== HTTP2) {
      socket.data.http1 = new Http1Connection(socket, this);
      return;
    }
    const connection = new Http2Connection(socket);
    socket.data.http2 = connection;
    this.#http2.begin(connection);
  }

  #look(): void {
    const nowMs = performance.now();
    for (const connection of this.#connections) connection.look(nowMs, this.idleMs);
  }

  #leaveIfEmpty(): void {
    if (this.#connections.size > 0) return;
    clearInterval(this.#looking);
    this.#empty.resolve();
  }
}

/** Neither of the two: it has not been said yet what is spoken. */
class Connection {
  http1: Http1Connection | undefined;
  http2: Http2Connection | undefined;
  readonly #socket: Socket<Connection>;
  readonly #openedMs = performance.now();

  constructor(socket: Socket<Connection>) {
    this.#socket = socket;
  }

  data(bytes: Buffer<ArrayBuffer>): void {
    if (this.http1 !== undefined) this.http1.data(bytes);
    else this.http2?.received(bytes);
  }

  drained(): void {
    if (this.http1 !== undefined) this.http1.drained();
    else this.http2?.drained();
  }

  closed(): void {
    this.http1?.closed();
    this.http2?.socketClosed();
  }

  look(nowMs: number, idleMs: number): void {
    if (this.http1 !== undefined) this.http1.look(nowMs);
    else if (this.http2 === undefined) {
      if (nowMs > this.#openedMs + EDGE_REQUEST_HEAD_MS) this.cut();
    } else if (nowMs > (this.http2.silentSinceMs ?? nowMs) + idleMs) this.cut();
    else this.http2.lookForStuck(nowMs);
  }

  cut(): void {
    this.#socket.terminate();
  }
}
