/**
 * Answers the name queries of sandboxes by asking the machine's own resolver, which may itself be in a range that is
 * closed to sandboxes. Each question goes out on a socket of its own that hears the resolver alone, under an id of its
 * own, and what comes back must repeat the question: nobody can slip an answer in. Questions and connections are
 * bounded for each sandbox, so that one that asks without end does not silence the others. What a sandbox may not ask
 * for is refused at once, and judged again when the answer comes.
 */
import { readFileSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { Counter } from "../base/counter.ts";
import { bareQuery, type DnsQuestion, questionOf, REFUSAL, readQuery, refusalOf, withId } from "./dns-message.ts";
import { dnsMessages, framed } from "./dns-stream.ts";
import type { EgressJudge } from "./egress-judge.ts";

/** Questions under way, of all sandboxes and of one; the oldest gives way. */
const DNS_QUERIES_MAX = 1024;
export const DNS_QUERIES_PER_SANDBOX_MAX = 64;
const DNS_CONNECTIONS_MAX = 512;
export const DNS_CONNECTIONS_PER_SANDBOX_MAX = 8;
const DNS_ANSWER_MS = 5_000;
/** Of a connection with questions: how long, how many, and of how many bytes each; an answer has as many as it can. */
const DNS_CONNECTION_MS = 10_000;
const DNS_MESSAGES_PER_CONNECTION_MAX = 256;
export const DNS_QUERY_MAX_BYTES = 4096;
const DNS_ANSWER_MAX_BYTES = 65_535;

const RESOLVER_FILE = "/etc/resolv.conf";
const FALLBACK = "1.1.1.1";
const DNS_PORT = 53;

type Listener = Bun.udp.Socket<"buffer">;
type JudgeOf = (source: string) => Pick<EgressJudge, "mayAsk"> | undefined;
/** What the resolver says; undefined: nothing, or nothing in time. */
type Upstream = (query: Buffer, question: Buffer) => Promise<Buffer | undefined>;

/** A question that waits for its answer. */
interface Asked {
  close(): void;
}

export class DnsRelay {
  readonly #asked = new Set<Asked>();
  readonly #questions = new Counter(DNS_QUERIES_PER_SANDBOX_MAX);
  readonly #connections = new Counter(DNS_CONNECTIONS_PER_SANDBOX_MAX);
  readonly #clients = new Set<Socket>();
  #listener: Listener | undefined;
  #tcp: Server | undefined;

  private constructor(
    readonly address: string,
    readonly resolver: () => string,
    readonly judgeOf: JudgeOf,
  ) {}

  /** `resolver` overrides the machine's own. Who has no judge may ask for whatever there is. */
  static async open(address: string, resolver: string | undefined, judgeOf: JudgeOf): Promise<DnsRelay> {
    const relay = new DnsRelay(address, resolver === undefined ? machineResolver() : () => resolver, judgeOf);
    relay.#listener = await Bun.udpSocket({
      hostname: address,
      port: DNS_PORT,
      socket: {
        data: (_, message, port, from) => void relay.#takeDatagram(message, port, from),
        // Word that a sandbox did not wait for an answer: no error of ours.
        error: () => undefined,
      },
    });
    relay.#tcp = relay.#listenTcp();
    return relay;
  }

  async #takeDatagram(message: Buffer, port: number, source: string): Promise<void> {
    // This machine's own relay of connections asks for all sandboxes, and bounds each of them itself.
    const isCounted = source !== this.address;
    if (isCounted && !this.#questions.add(source)) return;
    try {
      const answer = await this.#answer(message, source, (query, question) => this.#askByDatagram(query, question));
      // A datagram may always get lost, so one that cannot even be sent is no error of ours.
      if (answer !== undefined) this.#listener?.send(answer, port, source);
    } catch {
      // No way to the resolver at all, or none back: silence tells.
    } finally {
      if (isCounted) this.#questions.remove(source);
    }
  }

  /** What is said to a message; undefined: nothing. */
  async #answer(message: Buffer, source: string, upstream: Upstream): Promise<Buffer | undefined> {
    const question = readQuery(message);
    if (question === undefined) return undefined;
    if (typeof question === "number") return refusalOf(message, question);
    if (!this.#mayAsk(source, question)) return refusalOf(message, REFUSAL.refused);
    const query = this.judgeOf(source) === undefined ? message : bareQuery(message, question);
    const answer = await upstream(query, question.bytes);
    if (answer === undefined) return undefined;
    // The policy may be another one by now.
    if (!this.#mayAsk(source, question)) return refusalOf(message, REFUSAL.refused);
    return withId(answer, message.readUInt16BE(0));
  }

  #mayAsk(source: string, { name, isInternet }: DnsQuestion): boolean {
    const judge = this.judgeOf(source);
    return judge === undefined || (isInternet && judge.mayAsk(name));
  }

  async #askByDatagram(query: Buffer, question: Buffer): Promise<Buffer | undefined> {
    if (this.#asked.size >= DNS_QUERIES_MAX) this.#asked.values().next().value?.close();
    const id = randomId();
    const ended = Promise.withResolvers<Buffer | undefined>();
    const asked: Asked = { close: () => ended.resolve(undefined) };
    this.#asked.add(asked);
    const timer = setTimeout(asked.close, DNS_ANSWER_MS);
    try {
      const socket = await Bun.udpSocket({
        connect: { hostname: this.resolver(), port: DNS_PORT },
        socket: {
          data: (_, answer) => {
            if (isAnswer(answer, id, question)) ended.resolve(answer);
          },
          // Nobody is there: the sandbox learns it by the silence.
          error: asked.close,
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
      this.#asked.delete(asked);
    }
  }

  /** Long answers come over TCP. Message by message, for each has to be judged; one waits for the one before. */
  #listenTcp(): Server {
    const server = createServer({ allowHalfOpen: true }, (client) => {
      const source = client.remoteAddress ?? "";
      if (!this.#connections.add(source)) return void client.destroy();
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
        // On a connection silence would be waited for by whatever comes next.
        if (answer === undefined || count++ === DNS_MESSAGES_PER_CONNECTION_MAX) return;
        await written(client, framed(answer));
      }
    } catch {
      // It hung up, or there is no way to the resolver: the end of the connection tells.
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
    for (const asked of this.#asked) asked.close();
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

/** Resolves when it is with the kernel: who does not read gets no further answer. */
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
