/**
 * Relays DNS queries of sandboxes to the host's resolver, which may be in a range that is closed to sandboxes. Each
 * query uses its own id and its own socket connected to the resolver, and the response must repeat the question, so
 * that forged responses are dropped. Queries and connections are limited per sandbox, so that one sandbox cannot starve
 * the others. The policy is checked before a query is sent and again when its response arrives.
 */
import { readFileSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { KeyedLimit } from "../base/keyed-limit.ts";
import { bareQuery, type DnsQuestion, questionOf, REFUSAL, readQuery, refusalOf, withId } from "./dns-message.ts";
import { dnsMessages, framed } from "./dns-stream.ts";
import type { EgressMatcher } from "./egress-matcher.ts";

/** Maximum queries in flight, in total and per sandbox. Beyond the total, the oldest query is dropped. */
const DNS_QUERIES_MAX = 1024;
export const DNS_QUERIES_PER_SANDBOX_MAX = 64;
const DNS_CONNECTIONS_MAX = 512;
export const DNS_CONNECTIONS_PER_SANDBOX_MAX = 8;
const DNS_ANSWER_MS = 5_000;
/** Limits of one TCP connection: lifetime, messages, size of a query. Responses may have the DNS maximum. */
const DNS_CONNECTION_MS = 10_000;
const DNS_MESSAGES_PER_CONNECTION_MAX = 256;
export const DNS_QUERY_MAX_BYTES = 4096;
const DNS_ANSWER_MAX_BYTES = 65_535;
/** Attempts to send one response by UDP; see #send. */
const DNS_SENDS_MAX = 5;

const RESOLVER_FILE = "/etc/resolv.conf";
const FALLBACK = "1.1.1.1";
const DNS_PORT = 53;

type Listener = Bun.udp.Socket<"buffer">;
type MatcherOf = (source: string) => Pick<EgressMatcher, "mayResolve"> | undefined;
/** The resolver's response; undefined: none, or none in time. */
type Upstream = (query: Buffer, question: Buffer) => Promise<Buffer | undefined>;

interface PendingQuery {
  close(): void;
}

export class DnsRelay {
  readonly #pending = new Set<PendingQuery>();
  readonly #questions = new KeyedLimit(DNS_QUERIES_PER_SANDBOX_MAX);
  readonly #connections = new KeyedLimit(DNS_CONNECTIONS_PER_SANDBOX_MAX);
  readonly #clients = new Set<Socket>();
  /** Called with the outcome of each query. */
  onDecision: (decision: string) => void = () => undefined;
  #listener: Listener | undefined;
  #tcp: Server | undefined;

  private constructor(
    readonly address: string,
    readonly resolver: () => string,
    readonly matcherOf: MatcherOf,
  ) {}

  /** `resolver` overrides the host's resolver. A sandbox without a matcher may ask for every name. */
  static async open(address: string, resolver: string | undefined, matcherOf: MatcherOf): Promise<DnsRelay> {
    const relay = new DnsRelay(address, resolver === undefined ? machineResolver() : () => resolver, matcherOf);
    relay.#listener = await Bun.udpSocket({
      hostname: address,
      port: DNS_PORT,
      socket: {
        data: (_, message, port, from) => void relay.#takeDatagram(message, port, from),
        // The sandbox closed its socket before the response arrived: not an error of the server.
        error: () => undefined,
      },
    });
    relay.#tcp = relay.#listenTcp();
    return relay;
  }

  async #takeDatagram(message: Buffer, port: number, source: string): Promise<void> {
    if (!this.#isRelay(source) && !this.#questions.add(source)) return;
    try {
      const answer = await this.#answer(message, source, (query, question) => this.#askByDatagram(query, question));
      if (answer !== undefined) this.#send(answer, port, source);
    } catch {
      // The resolver or the sandbox is unreachable: the client sees a timeout.
    } finally {
      this.#questions.remove(source);
    }
  }

  /** The connection relay on this host asks for all sandboxes and limits each of them itself. */
  #isRelay(source: string): boolean {
    return source === this.address;
  }

  /**
   * When a sandbox closes its socket before its response arrives, the kernel reports that as a failure of the next
   * send, which would cost another sandbox its response. Sending again works.
   */
  #send(answer: Buffer, port: number, source: string): void {
    for (let attempt = 1; ; attempt++) {
      try {
        this.#listener?.send(answer, port, source);
        return;
      } catch (error) {
        if (attempt === DNS_SENDS_MAX) throw error;
      }
    }
  }

  async #answer(message: Buffer, source: string, upstream: Upstream): Promise<Buffer | undefined> {
    const question = readQuery(message);
    if (question === undefined) return undefined;
    if (typeof question === "number") return refusalOf(message, question);
    if (!this.#mayResolve(source, question)) {
      this.onDecision("forbidden");
      return refusalOf(message, REFUSAL.refused);
    }
    const query = this.matcherOf(source) === undefined ? message : bareQuery(message, question);
    const answer = await upstream(query, question.bytes);
    this.onDecision(answer === undefined ? "silent" : "allowed");
    if (answer === undefined) return undefined;
    // The policy may have changed while the query was in flight.
    if (!this.#mayResolve(source, question)) return refusalOf(message, REFUSAL.refused);
    return withId(answer, message.readUInt16BE(0));
  }

  #mayResolve(source: string, { name, isInternet }: DnsQuestion): boolean {
    const matcher = this.matcherOf(source);
    return matcher === undefined || (isInternet && matcher.mayResolve(name));
  }

  async #askByDatagram(query: Buffer, question: Buffer): Promise<Buffer | undefined> {
    if (this.#pending.size >= DNS_QUERIES_MAX) this.#pending.values().next().value?.close();
    const id = randomId();
    const ended = Promise.withResolvers<Buffer | undefined>();
    const pending: PendingQuery = { close: () => ended.resolve(undefined) };
    this.#pending.add(pending);
    const timer = setTimeout(pending.close, DNS_ANSWER_MS);
    try {
      const socket = await Bun.udpSocket({
        connect: { hostname: this.resolver(), port: DNS_PORT },
        socket: {
          data: (_, answer) => {
            if (isAnswer(answer, id, question)) ended.resolve(answer);
          },
          // The resolver is unreachable: the sandbox sees a timeout.
          error: pending.close,
        },
      });
      try {
        socket.send(withId(query, id));
        return await ended.promise;
      } finally {
        socket.close();
      }
    } finally {
      clearTimeout(timer);
      this.#pending.delete(pending);
    }
  }

  /** Long responses use TCP. The relay reads message by message, one at a time, because it checks each of them. */
  #listenTcp(): Server {
    const server = createServer({ allowHalfOpen: true }, (client) => {
      const source = client.remoteAddress ?? "";
      if (!this.#isRelay(source) && !this.#connections.add(source)) return void client.destroy();
      this.#clients.add(client);
      const timer = setTimeout(() => client.destroy(), DNS_CONNECTION_MS);
      client.on("error", () => client.destroy());
      client.on("close", () => {
        clearTimeout(timer);
        this.#clients.delete(client);
        this.#connections.remove(source);
      });
      void this.#serveStream(client, source);
    });
    server.maxConnections = DNS_CONNECTIONS_MAX;
    server.listen(DNS_PORT, this.address);
    return server;
  }

  async #serveStream(client: Socket, source: string): Promise<void> {
    let count = 0;
    try {
      for await (const message of dnsMessages(client, DNS_QUERY_MAX_BYTES)) {
        const answer = await this.#answer(message, source, (query, question) => this.#askByStream(query, question));
        // Close instead of staying silent: later queries on this connection would wait for the missing response.
        if (answer === undefined || count++ === DNS_MESSAGES_PER_CONNECTION_MAX) return;
        await written(client, framed(answer));
      }
    } catch {
      // The client disconnected or the resolver is unreachable: closing the connection says so.
    } finally {
      client.destroy();
    }
  }

  async #askByStream(query: Buffer, question: Buffer): Promise<Buffer | undefined> {
    const id = randomId();
    const upstream = connect(DNS_PORT, this.resolver());
    upstream.on("error", () => upstream.destroy());
    const timer = setTimeout(() => upstream.destroy(), DNS_ANSWER_MS);
    try {
      upstream.write(framed(withId(query, id)));
      for await (const answer of dnsMessages(upstream, DNS_ANSWER_MAX_BYTES)) {
        return isAnswer(answer, id, question) ? answer : undefined;
      }
      return undefined;
    } finally {
      clearTimeout(timer);
      upstream.destroy();
    }
  }

  close(): void {
    for (const query of this.#pending) query.close();
    for (const client of this.#clients) client.destroy();
    this.#listener?.close();
    this.#tcp?.close();
  }
}

function randomId(): number {
  return crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
}

function isAnswer(message: Buffer, id: number, question: Buffer): boolean {
  return message.length > 2 && message.readUInt16BE(0) === id && questionOf(message)?.equals(question) === true;
}

/** Resolves once the kernel has the bytes: a client that does not read gets no further responses. */
function written(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("close", resolve);
    socket.write(bytes, (error) => {
      socket.off("close", resolve);
      if (error) reject(error);
      else resolve();
    });
  });
}

/** The host's first name server, read again when the file changes. */
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
