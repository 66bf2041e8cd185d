/**
 * The edge's listener for clients: HTTP/1.1 through the project's own reader, and HTTP/2 with TLS. Bun's own server
 * drops bodies of GET and HEAD and creates objects per request that most requests do not need. This folder never
 * decides where a request goes; it passes each one to its handler.
 */
import type { Socket, SocketHandler, TCPSocketListener, TLSOptions } from "bun";
import { descriptorOf } from "../flow/socket-descriptor.ts";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MS } from "../limits.ts";
import type { ClientRequest } from "./client-request.ts";
import { Http1Connection, type Http1Owner } from "./http1-connection.ts";
import { Http2Connection } from "./http2-connection.ts";
import { Http2Sessions } from "./http2-sessions.ts";

/** Interval of the check for idle connections and late request heads. */
const EDGE_TIMEOUT_CHECK_MS = 2_000;

interface FrontOptions {
  hostname: string;
  port: number;
  tls?: { cert: string; key: string };
  reusePort?: boolean;
  /** Idle timeout between two requests; EDGE_IDLE_MS by default. */
  idleMs?: number;
  /** Handles the request; must not throw. */
  handle(request: ClientRequest): void;
}

/** ALPN protocols as Bun expects them: each preceded by its length. */
const PROTOCOLS = Buffer.from("\x02h2\x08http/1.1", "latin1");
const HTTP2 = "h2";
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1)$/;

export class EdgeListener implements Http1Owner {
  readonly #listener: TCPSocketListener<Connection>;
  readonly #connections = new Set<Connection>();
  readonly #http2: Http2Sessions;
  readonly #timeoutCheck: ReturnType<typeof setInterval>;
  readonly #empty = Promise.withResolvers<void>();
  readonly handle: (request: ClientRequest) => void;
  readonly isSecure: boolean;
  readonly idleMs: number;
  isStopping = false;

  /** Throws if it cannot listen. */
  constructor({ hostname, port, tls, reusePort = false, idleMs = EDGE_IDLE_MS, handle }: FrontOptions) {
    this.handle = handle;
    this.idleMs = idleMs;
    this.isSecure = tls !== undefined;
    this.#http2 = new Http2Sessions(handle);
    const options = { hostname, port, reusePort, socket: this.#handler() };
    // Bun supports ALPNProtocols, but its types do not list it.
    const withTls = { ...tls, ALPNProtocols: PROTOCOLS } as TLSOptions;
    this.#listener = Bun.listen<Connection>(tls === undefined ? options : Object.assign(options, { tls: withTls }));
    this.#timeoutCheck = setInterval(() => this.#checkTimeouts(), EDGE_TIMEOUT_CHECK_MS);
    this.#timeoutCheck.unref();
  }

  get port(): number {
    return this.#listener.port;
  }

  /** The listener's descriptor. */
  get descriptor(): number | undefined {
    return descriptorOf(this.#listener);
  }

  /** Whether only programs on this machine can connect. */
  get isLocal(): boolean {
    return LOOPBACK.test(this.#listener.hostname);
  }

  /** Stops accepting connections. Resolves when none are left; requests in progress finish first unless `force`. */
  async stop(force: boolean): Promise<void> {
    this.isStopping = true;
    this.#listener.stop();
    if (force) for (const connection of [...this.#connections]) connection.cut();
    else {
      this.#http2.finish();
      for (const { http1 } of [...this.#connections]) http1?.finish();
    }
    this.#resolveIfEmpty();
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
        else if (data.http1 === undefined && data.http2 === undefined) this.#chooseProtocol(socket);
      },
      // A socket hands out its own copy, never shared memory, although the type allows that.
      data: ({ data }, bytes) => data.data(bytes as Buffer<ArrayBuffer>),
      drain: ({ data }) => data.drained(),
      close: ({ data }) => {
        this.#connections.delete(data);
        data.closed();
        if (this.isStopping) this.#resolveIfEmpty();
      },
      error: (socket) => socket.terminate(),
    };
  }

  /** Chooses the protocol after the TLS handshake. */
  #chooseProtocol(socket: Socket<Connection>): void {
    if (socket.alpnProtocol !== HTTP2) {
      socket.data.http1 = new Http1Connection(socket, this);
      return;
    }
    const connection = new Http2Connection(socket);
    socket.data.http2 = connection;
    this.#http2.begin(connection);
  }

  #checkTimeouts(): void {
    const nowMs = performance.now();
    for (const connection of this.#connections) connection.checkTimeouts(nowMs, this.idleMs);
  }

  #resolveIfEmpty(): void {
    if (this.#connections.size > 0) return;
    clearInterval(this.#timeoutCheck);
    this.#empty.resolve();
  }
}

/** Has neither protocol until the TLS handshake has chosen one. */
class Connection {
  http1: Http1Connection | undefined;
  http2: Http2Connection | undefined;
  readonly #openedMs = performance.now();

  constructor(private readonly socket: Socket<Connection>) {}

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

  checkTimeouts(nowMs: number, idleMs: number): void {
    if (this.http1 !== undefined) this.http1.checkTimeouts(nowMs);
    else if (this.http2 === undefined) {
      if (nowMs > this.#openedMs + EDGE_REQUEST_HEAD_MS) this.cut();
    } else if (nowMs > (this.http2.silentSinceMs ?? nowMs) + idleMs) this.cut();
    else this.http2.checkStalled(nowMs);
  }

  cut(): void {
    this.socket.terminate();
  }
}
