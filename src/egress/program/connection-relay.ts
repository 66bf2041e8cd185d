/**
 * Relays connections of sandboxes to destinations that their policies allow. The firewall redirects connections here
 * that it cannot allow by address: HTTP to one port, TLS to another, and all connections of a sandbox with a proxy to a
 * third. A policy applies as soon as `set` returns, also to open connections.
 */

import { EventCounts } from "../../base/event-counts.ts";
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { Ipv4Ranges } from "../../contract/ip-range.ts";
import type { Bounds } from "./bounds.ts";
import { Flow } from "./flow.ts";
import { HttpFlow } from "./http-flow.ts";
import type { NameServer } from "./name-client.ts";
import { originalDestination } from "./original-destination.ts";
import { Peer } from "./peer.ts";
import { Sandbox, type SharedState } from "./sandbox.ts";
import { relayTls } from "./tls-flow.ts";

const HTTP_PORT = 80;
const TLS_PORT = 443;

export interface Ports {
  http: number;
  tls: number;
  proxied: number;
}

interface RelayOptions {
  address: string;
  /** Zero: any free port. */
  ports: Ports;
  nameServer: NameServer;
  bounds: Bounds;
  /** Receives the reason why connections of the sandbox with this address fail. */
  report?: SharedState["report"];
  /** Destination ports; only tests change them. */
  serverPorts?: { http: number; tls: number };
}

type StartFlow = (flow: Flow, fd: number) => void;
type Acceptor = Bun.TCPSocketListener<Peer | undefined>;

export class ConnectionRelay implements SharedState {
  readonly bounds: Bounds;
  readonly nameServer: NameServer;
  readonly ports: Ports;
  readonly report: SharedState["report"];
  readonly decisions = new EventCounts();
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #serverPorts: { http: number; tls: number };
  readonly #acceptors: Acceptor[];
  readonly #idleCheck: Timer;
  #closed = new Ipv4Ranges(["0.0.0.0/0"]);
  #flows = 0;

  constructor({ address, ports, nameServer, bounds, report, serverPorts }: RelayOptions) {
    this.report = report ?? (() => undefined);
    this.bounds = bounds;
    this.nameServer = nameServer;
    this.#serverPorts = serverPorts ?? { http: HTTP_PORT, tls: TLS_PORT };
    const http = this.#listen(address, ports.http, (flow) => void new HttpFlow(flow, this.#serverPorts.http));
    const tls = this.#listen(address, ports.tls, (flow) => relayTls(flow, this.#serverPorts.tls));
    const proxied = this.#listen(address, ports.proxied, (flow, fd) => this.#relayProxied(flow, fd));
    this.#acceptors = [http, tls, proxied];
    this.ports = { http: http.port, tls: tls.port, proxied: proxied.port };
    this.#idleCheck = setInterval(() => this.#cutIdle(), bounds.idleCheckMs);
  }

  /** Null: forgets the sandbox. */
  set(source: string, policy: EgressPolicy | null): void {
    const sandbox = this.#sandboxes.get(source);
    if (policy === null) {
      this.#sandboxes.delete(source);
      sandbox?.cutAll();
    } else if (sandbox === undefined) this.#sandboxes.set(source, new Sandbox(this, policy, source));
    else sandbox.setPolicy(policy);
  }

  setClosed(ranges: readonly string[]): void {
    this.#closed = new Ipv4Ranges(ranges);
    for (const sandbox of this.#sandboxes.values()) sandbox.cutForbidden();
  }

  close(): void {
    clearInterval(this.#idleCheck);
    for (const acceptor of this.#acceptors) acceptor.stop(true);
    for (const sandbox of this.#sandboxes.values()) sandbox.cutAll();
  }

  isClosed(address: string): boolean {
    return this.#closed.has(address);
  }

  shareBytes(): number {
    const { heldBytes, heldPerSandboxMinBytes } = this.bounds;
    return Math.max(heldPerSandboxMinBytes, heldBytes / Math.max(1, this.#sandboxes.size));
  }

  #listen(hostname: string, port: number, start: StartFlow): Acceptor {
    const socket: Bun.SocketHandler<Peer | undefined> = {
      ...Peer.handlers,
      open: (socket) => {
        const sandbox = this.#sandboxes.get(socket.remoteAddress);
        if (sandbox === undefined || !this.#hasRoom(sandbox)) {
          this.decisions.add("no-room");
          return void socket.terminate();
        }
        this.#flows += 1;
        const flow = new Flow(sandbox, socket, () => {
          this.#flows -= 1;
        });
        const { fd } = socket as unknown as { fd: number };
        const delayMs = sandbox.arrivalDelayMs();
        if (delayMs === 0) return start(flow, fd);
        flow.client.pause();
        setTimeout(() => {
          if (!flow.isOver) start(flow, fd);
        }, delayMs);
      },
    };
    return Bun.listen<Peer | undefined>({ hostname, port, allowHalfOpen: true, data: undefined, socket });
  }

  /** When the relay is full, the sandbox with the most connections loses one to a sandbox with fewer. */
  #hasRoom(sandbox: Sandbox): boolean {
    const { connections, connectionsPerSandbox, waitingPerSandbox } = this.bounds;
    if (sandbox.flows.size >= connectionsPerSandbox || sandbox.waiting >= waitingPerSandbox) return false;
    if (this.#flows < connections) return true;
    let fullest = sandbox;
    for (const other of this.#sandboxes.values()) if (other.flows.size > fullest.flows.size) fullest = other;
    if (fullest.flows.size <= sandbox.flows.size + 1) return false;
    const [oldest] = fullest.flows;
    oldest?.cut();
    return true;
  }

  #relayProxied(flow: Flow, fd: number): void {
    const destination = originalDestination(fd);
    if (destination === undefined || flow.sandbox.isClosed(destination.address)) return void this.#forbid(flow);
    const { address, port } = destination;
    if (flow.sandbox.judge.allowsAddress(address)) {
      relayUnread(flow, address, port).catch(() => flow.cut());
      return;
    }
    if (port === HTTP_PORT) return void new HttpFlow(flow, HTTP_PORT);
    if (port === TLS_PORT) return void relayTls(flow, TLS_PORT);
    this.#forbid(flow);
  }

  #forbid(flow: Flow): void {
    this.decisions.add("forbidden");
    flow.cut();
  }

  #cutIdle(): void {
    const now = performance.now();
    for (const sandbox of this.#sandboxes.values()) {
      for (const flow of sandbox.flows) {
        const idleMs = now - flow.movedAt;
        if (idleMs > this.bounds.idleMs) flow.cut();
        else if (sandbox.isFull && flow.isStalled && idleMs > this.bounds.stalledMs) flow.cut();
      }
    }
  }
}

async function relayUnread(flow: Flow, address: string, port: number): Promise<void> {
  flow.client.pause();
  const upstream = await flow.reach({ address }, port);
  if (typeof upstream === "string") return void flow.cut();
  flow.join(upstream);
}
