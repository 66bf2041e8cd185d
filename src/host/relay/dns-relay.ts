/**
 * Answers the name queries of sandboxes by asking the machine's own resolver, which may itself be in a range that is
 * closed to sandboxes. Each question goes out on a socket of its own that hears the resolver alone, under an id of its
 * own, and what comes back must repeat the question: nobody can slip an answer in. Questions and connections are
 * bounded for each sandbox, so that one that asks without end does not silence the others.
 */
import { readFileSync, statSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { Tally } from "../../work/tally.ts";
import {
  DNS_ANSWER_MS,
  DNS_CONNECTIONS_MAX,
  DNS_CONNECTIONS_PER_SANDBOX_MAX,
  DNS_QUERIES_MAX,
  DNS_QUERIES_PER_SANDBOX_MAX,
} from "../limits.ts";

const RESOLVER_FILE = "/etc/resolv.conf";
const FALLBACK = "1.1.1.1";
const DNS_PORT = 53;
const HEADER_BYTES = 12;

type Listener = Bun.udp.Socket<"buffer">;

/** A question that waits for its answer. */
interface Asked {
  close(): void;
}

export class DnsRelay {
  readonly #asked = new Set<Asked>();
  readonly #questions = new Tally(DNS_QUERIES_PER_SANDBOX_MAX);
  readonly #connections = new Tally(DNS_CONNECTIONS_PER_SANDBOX_MAX);
  #listener: Listener | undefined;
  #tcp: Server | undefined;

  private constructor(readonly resolver: () => string) {}

  /** `resolver` overrides the machine's own. */
  static async open(address: string, resolver: string | undefined): Promise<DnsRelay> {
    const relay = new DnsRelay(resolver === undefined ? machineResolver() : () => resolver);
    relay.#listener = await Bun.udpSocket({
      hostname: address,
      port: DNS_PORT,
      socket: {
        data: (_, message, port, from) => void relay.#ask(message, port, from),
        // Word that a sandbox did not wait for an answer: no error of ours.
        error: () => undefined,
      },
    });
    relay.#tcp = relay.#listenTcp(address);
    return relay;
  }

  async #ask(message: Buffer, port: number, address: string): Promise<void> {
    const question = questionOf(message);
    if (question === undefined || !this.#questions.add(address)) return;
    if (this.#asked.size >= DNS_QUERIES_MAX) this.#asked.values().next().value?.close();
    const id = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
    const ended = Promise.withResolvers<void>();
    const asked: Asked = { close: ended.resolve };
    this.#asked.add(asked);
    const timer = setTimeout(asked.close, DNS_ANSWER_MS);
    try {
      const socket = await Bun.udpSocket({
        connect: { hostname: this.resolver(), port: DNS_PORT },
        socket: {
          data: (_, answer) => {
            if (answer.length < HEADER_BYTES || answer.readUInt16BE(0) !== id) return;
            if (!questionOf(answer)?.equals(question)) return;
            this.#reply(withId(answer, message.readUInt16BE(0)), port, address);
            asked.close();
          },
          // Nobody is there: the sandbox learns it by the silence.
          error: asked.close,
        },
      });
      try {
        socket.send(withId(message, id));
        await ended.promise;
      } finally {
        socket.close();
      }
    } catch {
      // No way to the resolver at all: again, silence tells.
    } finally {
      clearTimeout(timer);
      this.#asked.delete(asked);
      this.#questions.remove(address);
    }
  }

  /** A datagram may always get lost, so one that cannot even be sent is no error of ours. */
  #reply(answer: Buffer, port: number, address: string): void {
    try {
      this.#listener?.send(answer, port, address);
    } catch {
      // As if it had been lost on the way.
    }
  }

  /** Long answers come over TCP: a plain splice to the resolver, for a bounded time. */
  #listenTcp(address: string): Server {
    const server = createServer((client) => {
      const from = client.remoteAddress ?? "";
      if (!this.#connections.add(from)) return void client.destroy();
      const upstream = connect(DNS_PORT, this.resolver());
      const end = () => {
        client.destroy();
        upstream.destroy();
      };
      const timer = setTimeout(end, DNS_ANSWER_MS);
      client.on("close", () => {
        clearTimeout(timer);
        this.#connections.remove(from);
      });
      for (const socket of [client, upstream]) socket.on("error", end).on("close", end);
      client.pipe(upstream).pipe(client);
    });
    server.maxConnections = DNS_CONNECTIONS_MAX;
    server.listen(DNS_PORT, address);
    return server;
  }

  close(): void {
    for (const asked of this.#asked) asked.close();
    this.#listener?.close();
    this.#tcp?.close();
  }
}

/** The first question of a message, as bytes; undefined when the message is not one. */
export function questionOf(message: Buffer): Buffer | undefined {
  if (message.length < HEADER_BYTES || message.readUInt16BE(4) < 1) return undefined;
  let at = HEADER_BYTES;
  for (let length = message[at]; length !== 0; length = message[at]) {
    // Past the end, or a pointer, which has no place in a question.
    if (length === undefined || length > 63) return undefined;
    at += length + 1;
  }
  const end = at + 5;
  return end <= message.length ? message.subarray(HEADER_BYTES, end) : undefined;
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
  return /^\s*nameserver\s+([\d.]+|[\da-f:]+)\s*$/im.exec(text)?.[1];
}
