/**
 * Relays connections of sandboxes to destinations that their policies allow. The firewall redirects connections here
 * that it cannot allow by address: HTTP to one port, TLS to another, and all connections of a sandbox with a proxy to a
 * third. A policy applies as soon as `set` returns, also to open connections.
 */
import { EventCounts } from "../../base/event-counts.ts";
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { Ipv4Ranges } from "../../contract/ip-range.ts";
import type { Ports } from "../relay-messages.ts";
import type { Bounds } from "./bounds.ts";
import { Flow } from "./flow.ts";
import type { NameServer } from "./name-client.ts";
import { originalDestination } from "./original-destination.ts";
import { Peer } from "./peer.ts";
import { relayHttp } from "./plain-http.ts";
import type { RuleServer } from "./rule-server.ts";
import { SandboxTraffic, type SharedState } from "./sandbox-traffic.ts";
import { type ChosenAddress, carry, relayTls } from "./tls-flow.ts";

const HTTP_PORT = 80;
const TLS_PORT = 443;
const NOTHING = Buffer.alloc(0);

interface RelayOptions {
  address: string;
  /** Zero: any free port. */
  ports: Ports;
  nameServer: NameServer;
  bounds: Bounds;
  /** Receives the reason why connections of the sandbox with this address fail. */
  report?: SharedState["report"];
  /** Absent: names with header rules are not relayed. */
  rules?: RuleServer | undefined;
  /** Destination ports, and where the sandbox connected to; only tests change them. */
  serverPorts?: { http: number; tls: number };
  destinationOf?: typeof originalDestination;
}

type StartFlow = (flow: Flow, fd: number) => void;
type Acceptor = Bun.TCPSocketListener<Peer | undefined>;

export class ConnectionRelay implements SharedState {
  readonly bounds: Bounds;
  readonly nameServer: NameServer;
  readonly ports: Ports;
  readonly report: SharedState["report"];
  readonly rules: RuleServer | undefined;
  readonly decisions = new EventCounts();
  http2Connections = 0;
  readonly #sandboxes = new Map<string, SandboxTraffic>();
  readonly #serverPorts: { http: number; tls: number };
  readonly #destinationOf: typeof originalDestination;
  readonly #acceptors: Acceptor[];
  readonly #idleCheck: Timer;
  #closed = new Ipv4Ranges(["0.0.0.0/0"]);
  #flows = 0;

  constructor({ address, ports, nameServer, bounds, report, rules, serverPorts, destinationOf }: RelayOptions) {
    this.rules = rules;
    this.#destinationOf = destinationOf ?? originalDestination;
    this.report = report ?? (() => undefined);
    this.bounds = bounds;
    this.nameServer = nameServer;
    this.#serverPorts = serverPorts ?? { http: HTTP_PORT, tls: TLS_PORT };
    const { http: httpPort, tls: tlsPort } = this.#serverPorts;
    const http = this.#listen(address, ports.http, (flow, fd) => relayHttp(flow, httpPort, this.#chosen(flow, fd)));
    const tls = this.#listen(address, ports.tls, (flow, fd) => relayTls(flow, tlsPort, this.#chosen(flow, fd)));
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
    } else if (sandbox === undefined) this.#sandboxes.set(source, new SandboxTraffic(this, policy, source));
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

  counted(): () => void {
    this.#flows += 1;
    return () => {
      this.#flows -= 1;
    };
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
        const flow = new Flow(sandbox, socket, this.counted());
        const { fd } = socket as unknown as { fd: number };
        const begin = () => {
          try {
            if (!flow.isOver) start(flow, fd);
          } catch {
            flow.cut();
            sandbox.reportFailure("a connection could not be relayed");
          }
        };
        const delayMs = sandbox.arrivalDelayMs();
        if (delayMs === 0) return begin();
        flow.client.pause();
        setTimeout(begin, delayMs);
      },
    };
    return Bun.listen<Peer | undefined>({ hostname, port, allowHalfOpen: true, data: undefined, socket });
  }

  /** When the relay is full, the sandbox with the most connections loses one to a sandbox with fewer. */
  #hasRoom(sandbox: SandboxTraffic): boolean {
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
    const destination = this.#destinationOf(fd);
    if (destination === undefined || flow.sandbox.isClosed(destination.address)) return void this.#forbid(flow);
    const { address, port } = destination;
    const { matcher } = flow.sandbox;
    const chosen = matcher.allowsAddress(address) ? destination : undefined;
    const isRead = chosen === undefined || matcher.hasRules;
    if (port === HTTP_PORT && isRead) return void relayHttp(flow, HTTP_PORT, chosen);
    if (port === TLS_PORT && isRead) return void relayTls(flow, TLS_PORT, chosen);
    if (chosen === undefined) this.#forbid(flow);
    else carry(flow, chosen, NOTHING);
  }

  /**
   * The address that the sandbox connected to, if its rules allow that. Only sandboxes with header rules come here with
   * such an address: without them, the firewall lets the connection pass.
   */
  #chosen({ sandbox }: Flow, fd: number): ChosenAddress | undefined {
    if (!sandbox.matcher.hasRules) return undefined;
    const destination = this.#destinationOf(fd);
    return destination !== undefined && sandbox.matcher.allowsAddress(destination.address) ? destination : undefined;
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
