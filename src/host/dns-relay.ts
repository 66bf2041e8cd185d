/**
 * Answers the name queries of sandboxes by asking the machine's own resolver, which may itself be in a range that is closed
 * to sandboxes. Bytes are passed on unread but for the query's id, which is replaced so that answers find their way back.
 */
import { readFileSync, statSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { DNS_ANSWER_MS, DNS_QUERIES_MAX, DNS_TCP_MAX } from "../contract/limits.ts";

const RESOLVER_FILE = "/etc/resolv.conf";
const FALLBACK = "1.1.1.1";
const MESSAGE_MIN_BYTES = 12;

interface Asked {
  address: string;
  port: number;
  id: number;
  timer: Timer;
}

type Udp = Bun.udp.Socket<"buffer">;

export class DnsRelay {
  readonly #asked = new Map<number, Asked>();
  #listener: Udp | undefined;
  #upstream: Udp | undefined;
  #tcp: Server | undefined;

  private constructor(readonly resolver: () => string) {}

  /** `resolver` overrides the machine's own. */
  static async open(address: string, resolver: string | undefined): Promise<DnsRelay> {
    const relay = new DnsRelay(resolver === undefined ? machineResolver() : () => resolver);
    await relay.#listen(address);
    return relay;
  }

  async #listen(address: string): Promise<void> {
    this.#upstream = await Bun.udpSocket({
      hostname: "0.0.0.0",
      port: 0,
      // An answer that cannot be delivered, or a resolver that is not there, is known by the silence that follows.
      socket: { data: (_, message) => this.#answered(message), error: () => undefined },
    });
    this.#listener = await Bun.udpSocket({
      hostname: address,
      port: 53,
      socket: { data: (_, message, port, from) => this.#query(message, port, from), error: () => undefined },
    });
    this.#tcp = this.#listenTcp(address);
  }

  #query(message: Buffer, port: number, address: string): void {
    if (message.length < MESSAGE_MIN_BYTES || this.#asked.size >= DNS_QUERIES_MAX) return;
    const fresh = this.#freshId();
    const timer = setTimeout(() => this.#asked.delete(fresh), DNS_ANSWER_MS);
    this.#asked.set(fresh, { address, port, id: message.readUInt16BE(0), timer });
    sendOrForget(this.#upstream, withId(message, fresh), 53, this.resolver());
  }

  #answered(message: Buffer): void {
    if (message.length < MESSAGE_MIN_BYTES) return;
    const key = message.readUInt16BE(0);
    const asked = this.#asked.get(key);
    if (asked === undefined) return;
    clearTimeout(asked.timer);
    this.#asked.delete(key);
    sendOrForget(this.#listener, withId(message, asked.id), asked.port, asked.address);
  }

  #freshId(): number {
    for (;;) {
      const id = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
      if (!this.#asked.has(id)) return id;
    }
  }

  /** Long answers come over TCP: a plain splice to the resolver. */
  #listenTcp(address: string): Server {
    const server = createServer((client) => {
      const upstream = connect(53, this.resolver());
      const end = () => {
        client.destroy();
        upstream.destroy();
      };
      for (const socket of [client, upstream]) {
        socket.setTimeout(DNS_ANSWER_MS, end);
        socket.on("error", end);
        socket.on("close", end);
      }
      client.pipe(upstream).pipe(client);
    });
    server.maxConnections = DNS_TCP_MAX;
    server.listen(53, address);
    return server;
  }

  close(): void {
    for (const { timer } of this.#asked.values()) clearTimeout(timer);
    this.#listener?.close();
    this.#upstream?.close();
    this.#tcp?.close();
  }
}

/**
 * A datagram may always get lost, so one that cannot even be sent is no error of ours. Sending also reports what became of
 * earlier datagrams: a sandbox that asks and closes its socket must not make this one throw.
 */
function sendOrForget(socket: Udp | undefined, message: Buffer, port: number, address: string): void {
  try {
    socket?.send(message, port, address);
  } catch {
    // As if it had been lost on the way.
  }
}

function withId(message: Buffer, id: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(id, 0);
  return copy;
}

/** The first name server of the machine, read again when the file changes. */
function machineResolver(): () => string {
  let readAt = 0;
  let address = FALLBACK;
  return () => {
    const changedAt = statSync(RESOLVER_FILE, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (changedAt !== readAt) {
      readAt = changedAt;
      address = firstNameserver(changedAt === 0 ? "" : readFileSync(RESOLVER_FILE, "utf8")) ?? FALLBACK;
    }
    return address;
  };
}

export function firstNameserver(text: string): string | undefined {
  return /^\s*nameserver\s+(\d{1,3}(?:\.\d{1,3}){3})\s*$/m.exec(text)?.[1];
}
