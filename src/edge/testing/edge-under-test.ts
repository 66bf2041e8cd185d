/** For tests: a real server with the edge in it, a table with one sandbox at 127.0.0.1, and raw sockets. */
import net from "node:net";
import type { Splice } from "../../base/splicing.ts";
import { freePort } from "../../base/testing/free-port.ts";
import type { Directory, RouteAccess } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { Edge } from "../edge.ts";
import { EdgeListener } from "../front/edge-listener.ts";
import type { ConnectionLimits } from "../limits.ts";
import { serveManagement } from "../management-server.ts";
import { LocalQuota } from "../proxy/connection-quota.ts";
import type { RequestTraces } from "../request-trace.ts";
import { TrustedProxies } from "../routing/client-address.ts";
import { type Destination, RouteTable } from "../routing/route-table.ts";
import { SELF_SIGNED } from "./self-signed.ts";

export const SANDBOX = "i0123456789abcdefghij";
/** The lines that ask for a WebSocket. */
export const UPGRADE =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
  "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n";

/** The global class under its Bun type; the DOM type, which the compiler prefers, knows neither headers nor pings. */
const BunWebSocket = WebSocket as unknown as new (url: string, options: Bun.WebSocketOptions) => Bun.WebSocket;

interface EdgeOptions {
  trustedProxies?: TrustedProxies;
  limits?: ConnectionLimits;
  splice?: Splice;
  traces?: RequestTraces;
}

export class EdgeUnderTest implements AsyncDisposable {
  readonly #management = serveManagement({ management: (request) => this.management(request) });
  readonly #edge: Edge;
  readonly #front: EdgeListener;
  readonly #tlsFront: EdgeListener;
  readonly logged: string[] = [];
  /** Of the messages in `logged`. */
  readonly contexts: Record<string, unknown>[] = [];
  /** Calls to the directory and to the sandbox's forwarder. */
  lookups = 0;
  forwardsAsked = 0;
  readonly routes = new RouteTable();
  forward: (port: number) => Promise<number | undefined> = async () => undefined;
  findSigned: Directory["findSigned"] = async () => undefined;
  /** By default `wake` knows the sandboxes of the table alone. */
  wake: Directory["wake"] = async (id) =>
    this.routes.find(id) === undefined ? { refused: "not-found" } : { woken: true };
  management: (request: Request) => Promise<Response> = async () => new Response("management");
  #runs = 1;

  constructor({ trustedProxies = new TrustedProxies([]), limits, ...rest }: EdgeOptions = {}) {
    const routes = { find: (id: string) => this.find(id) };
    const log = (message: string, context: Record<string, unknown>) => {
      this.logged.push(message);
      this.contexts.push(context);
    };
    const management = this.#management.socket;
    const services = { directory: this.#directory(), routes, management, log, trustedProxies };
    const quota = limits && { quota: new LocalQuota(limits) };
    this.#edge = new Edge({ ...services, ...quota, ...rest });
    this.place();
    this.#front = new EdgeListener({ hostname: "127.0.0.1", port: 0, handle: this.#edge.handle });
    this.#tlsFront = new EdgeListener({ hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED, handle: this.#edge.handle });
  }

  /** With TLS, over HTTP/1.1 and HTTP/2. */
  get tlsPort(): number {
    return this.#tlsFront.port;
  }

  get port(): number {
    return this.#front.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#front.stop(true), this.#tlsFront.stop(true)]);
    await this.#management.stop(true);
  }

  /** A request to a port of the sandbox, through the edge. */
  fetch(port: number, path: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<Response> {
    return fetch(`http://127.0.0.1:${this.port}${path}`, {
      redirect: "manual",
      ...init,
      headers: { ...init.headers, host: hostOf(port) },
    });
  }

  /** A WebSocket to a port of the sandbox, through the edge. */
  websocket(port: number, path = "/", headers: Record<string, string> = {}): Bun.WebSocket {
    const options: Bun.WebSocketOptions = { headers: { ...headers, host: hostOf(port) } };
    const socket = new BunWebSocket(`ws://127.0.0.1:${this.port}${path}`, options);
    socket.binaryType = "arraybuffer";
    return socket;
  }

  /** Sends raw bytes and returns everything received until the server closes or `until` is satisfied. */
  raw(request: string, until: (received: string) => boolean = () => false, more?: MoreBytes): Promise<string> {
    return rawExchange(this.port, request, until, more);
  }

  /** The edge's lookup of a sandbox; a test may break it. */
  find(id: string): Destination | undefined {
    this.lookups += 1;
    return this.routes.find(id);
  }

  /** Access rules from the next `place` on. */
  access: RouteAccess = {
    teamId: "team",
    trafficToken: null,
    guardsRuntime: false,
    maskRequestHost: null,
    httpsPorts: [],
  };

  /** Sets the address of the sandbox. */
  place({
    host = "127.0.0.1",
    runtimePort = RUNTIME_PORT,
    ownPorts = true,
  }: Partial<Destination["endpoint"]> = {}): void {
    this.#tell({ host, runtimePort, ownPorts }, true);
  }

  /** Refuses new requests; open connections continue. */
  hide(): void {
    this.#tell({ host: "127.0.0.1", runtimePort: RUNTIME_PORT, ownPorts: true }, false);
  }

  #tell(endpoint: Destination["endpoint"], isOpen: boolean): void {
    const { access } = this;
    this.routes.take({ kind: "route", route: { sandboxId: SANDBOX, runId: this.#runId, endpoint, access, isOpen } });
  }

  /** Ends the run; the next `place` begins another. */
  end(): void {
    this.routes.take({ kind: "over", sandboxId: SANDBOX, runId: this.#runId });
    this.#runs += 1;
  }

  get #runId(): string {
    return `run-${this.#runs}`;
  }

  #directory(): Directory {
    return {
      follow: () => undefined,
      forward: (_id, port) => {
        this.forwardsAsked += 1;
        return this.forward(port);
      },
      wake: async (id, request) => this.wake(id, request),
      findSigned: async (link, client) => this.findSigned(link, client),
    };
  }
}

export function hostOf(port: number): string {
  return `${port}-${SANDBOX}.example.com`;
}

/** Sent after a pause. */
interface MoreBytes {
  afterMs: number;
  text: string;
}

function rawExchange(
  port: number,
  request: string,
  until: (received: string) => boolean,
  more?: MoreBytes,
): Promise<string> {
  return new Promise((resolve) => {
    let received = "";
    const socket = net.connect(port, "127.0.0.1", () => {
      socket.write(request, "latin1");
      if (more !== undefined) setTimeout(() => socket.write(more.text, "latin1"), more.afterMs);
    });
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      if (until(received)) socket.destroy();
    });
    socket.on("error", (failure) => {
      received += `<${failure.message}>`;
    });
    socket.on("close", () => resolve(received));
  });
}

/** The next message. */
export function next(socket: Bun.WebSocket): Promise<string | Uint8Array> {
  return new Promise((resolve) => {
    socket.onmessage = ({ data }) => resolve(typeof data === "string" ? data : new Uint8Array(data));
  });
}

/** Code and reason with which a WebSocket ended. */
export function closing(socket: Bun.WebSocket): Promise<string> {
  return new Promise((resolve) => {
    socket.onclose = ({ code, reason }) => resolve(`${code} ${reason}`);
  });
}

/** A TCP service controlled by the test. The bytes of each connection are collected. */
export class RawService implements AsyncDisposable {
  readonly #server: net.Server;
  readonly received: string[] = [];
  readonly sockets: net.Socket[] = [];

  private constructor(server: net.Server) {
    this.#server = server;
  }

  /** `onHead` is called once for each connection, when the head of its first request is complete. */
  static async start(onHead: (socket: net.Socket, head: string) => void, port = 0): Promise<RawService> {
    const server = net.createServer();
    const service = new RawService(server);
    server.on("connection", (socket) => service.#serve(socket, onHead));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    return service;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the service does not listen");
    return address.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: net.Socket, onHead: (socket: net.Socket, head: string) => void): void {
    const index = this.sockets.push(socket) - 1;
    let seen = false;
    this.received[index] = "";
    socket.on("error", () => socket.destroy());
    socket.on("data", (bytes) => {
      this.received[index] += bytes.toString("latin1");
      const text = this.received[index] ?? "";
      const end = text.indexOf("\r\n\r\n");
      if (seen || end < 0) return;
      seen = true;
      onHead(socket, text.slice(0, end + 2));
    });
  }
}

/** An edge in another process, with its port and peak memory. */
export class EdgeProcess implements AsyncDisposable {
  readonly #child: Bun.Subprocess<"ignore", "pipe", "inherit">;
  readonly port: number;

  private constructor(child: Bun.Subprocess<"ignore", "pipe", "inherit">, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(env: Record<string, string> = {}): Promise<EdgeProcess> {
    const child = Bun.spawn([process.execPath, import.meta.path], {
      env: { ...process.env, ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    for await (const line of child.stdout) return new EdgeProcess(child, Number(Buffer.from(line).toString()));
    throw new Error("the edge did not start");
  }

  async peakBytes(): Promise<number> {
    const status = await Bun.file(`/proc/${this.#child.pid}/status`).text();
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
  }
}

/** A port without a listener. */
export async function closedPort(): Promise<number> {
  return freePort();
}

// When run directly, it is an edge in its own process, with separate memory and environment.
if (import.meta.main) console.log(new EdgeUnderTest().port);
