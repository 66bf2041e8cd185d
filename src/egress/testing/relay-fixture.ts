/**
 * A relay in the test's process, on loopback addresses: 127.0.0.1 is a sandbox, 127.0.0.2 and so on are the outside, on
 * the test's own ports.
 */
import type { EgressPolicy } from "../../contract/internal/host.ts";
import { BOUNDS, type Bounds } from "../program/bounds.ts";
import { ConnectionRelay } from "../program/connection-relay.ts";
import type { RuleServer } from "../program/rule-server.ts";
import { type NameTable, openNameTable } from "./name-table.ts";
import { RawClient } from "./raw-client.ts";

export const SANDBOX = "127.0.0.1";
/** Denies everything except named destinations. */
const DENY_ALL: EgressPolicy = { allowRanges: [], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null };

export function allowing(...allowNames: string[]): EgressPolicy {
  return { ...DENY_ALL, allowNames };
}

/** A server of the outside that reports what it received. */
export interface Outside extends Disposable {
  address: string;
  port: number;
  connections: Bun.Socket<undefined>[];
  received(): string;
  /** How many of its connections are over. */
  lost: number;
}

type OnData = (socket: Bun.Socket<undefined>, bytes: Buffer) => void;

/** `port` zero: any. */
export function openOutside(
  address: string,
  port: number,
  onData: OnData = () => undefined,
  onDrain?: (socket: Bun.Socket<undefined>) => void,
): Outside {
  const pieces: Buffer[] = [];
  const connections: Bun.Socket<undefined>[] = [];
  const listener = Bun.listen<undefined>({
    hostname: address,
    port,
    allowHalfOpen: true,
    socket: {
      open: (socket) => void connections.push(socket),
      data: (socket, bytes) => {
        pieces.push(bytes);
        onData(socket, bytes);
      },
      drain: (socket) => onDrain?.(socket),
      end: (socket) => void socket.end(),
      close: () => {
        outside.lost += 1;
      },
      error: () => undefined,
    },
  });
  const outside: Outside = {
    address,
    port: listener.port,
    connections,
    lost: 0,
    received: () => Buffer.concat(pieces).toString("latin1"),
    [Symbol.dispose]: () => listener.stop(true),
  };
  return outside;
}

/** A server that answers everything with bytes for as long as the client reads them. */
export function openSource(address: string, port: number): Outside & { sentBytes(): number } {
  const piece = Buffer.alloc(64 * 1024, "x");
  let sent = 0;
  const send = (socket: Bun.Socket<undefined>) => {
    for (let taken = 1; taken > 0; sent += taken) taken = Math.max(0, socket.write(piece));
  };
  return Object.assign(openOutside(address, port, send, send), { sentBytes: () => sent });
}

interface Chosen {
  address: string;
  port: number;
}

export class RelayFixture implements Disposable {
  private constructor(
    readonly relay: ConnectionRelay,
    readonly table: NameTable,
    /** Why connections failed. */
    readonly reports: string[],
  ) {}

  /** `serverPort`: where servers of the outside listen, for HTTP and TLS alike. */
  static async open(
    serverPort: number,
    bounds: Partial<Bounds> = {},
    { rules, chosen }: { rules?: RuleServer; chosen?: Chosen | (() => Chosen) | undefined } = {},
  ): Promise<RelayFixture> {
    const table = await openNameTable("127.0.0.1");
    const reports: string[] = [];
    const relay = new ConnectionRelay({
      address: "127.0.0.1",
      ports: { http: 0, tls: 0, proxied: 0 },
      nameServer: table,
      bounds: { ...BOUNDS, ...bounds },
      serverPorts: { http: serverPort, tls: serverPort },
      report: (source, message) => void reports.push(`${source} ${message}`),
      rules,
      destinationOf: typeof chosen === "function" ? chosen : () => chosen,
    });
    relay.setClosed(["10.0.0.0/8"]);
    return new RelayFixture(relay, table, reports);
  }

  http(from?: string): Promise<RawClient> {
    return RawClient.open(this.relay.ports.http, "127.0.0.1", from);
  }

  tls(from?: string): Promise<RawClient> {
    return RawClient.open(this.relay.ports.tls, "127.0.0.1", from);
  }

  [Symbol.dispose](): void {
    this.relay.close();
    this.table[Symbol.dispose]();
  }
}
