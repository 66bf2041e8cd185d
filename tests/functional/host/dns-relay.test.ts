/**
 * The DNS relay passes on only the resolver's answers, only to the sandbox that asked, and only for names it may ask
 * for. Sandboxes are addresses of the loopback network here; the resolver is a test server that records what it heard.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import { KeyedLimit } from "../../../src/base/keyed-limit.ts";
import {
  DNS_CONNECTIONS_PER_SANDBOX_MAX,
  DNS_QUERIES_PER_SANDBOX_MAX,
  DNS_QUERY_MAX_BYTES,
  DnsRelay,
  firstNameserver,
} from "../../../src/egress/dns-relay.ts";
import { dnsMessages, framed } from "../../../src/egress/dns-stream.ts";
import { EgressMatcher } from "../../../src/egress/egress-matcher.ts";
import { answerHead, dnsQuery } from "../../../src/egress/testing/dns-query.ts";
import { until } from "../../support/until.ts";

const RELAY = "127.0.9.1";
const RESOLVER = "127.0.9.53";
const OPEN = "127.0.9.100";
const NAMES_ONLY = "127.0.9.101";
const ADDRESSES_ONLY = "127.0.9.102";
const LOOSE = "127.0.9.103";
const CHANGING = "127.0.9.104";
const DNS_PORT = 53;
const ANSWER_DATA = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 215, 20]);
const OK = 0;
const REFUSED = 5;
const everything = ["0.0.0.0/0"];

const matchers = new Map<string, EgressMatcher>();
const matcher = (allowNames: string[], allowRanges: string[], denyRanges: string[]) =>
  new EgressMatcher({ allowNames, allowRanges, denyRanges, proxy: null });

/** The queries that the resolver received, oldest first. */
const received: Buffer[] = [];
/** Releases the answers that are held back. */
let held: PromiseWithResolvers<void> | undefined;
let relay: DnsRelay;
let udp: Bun.udp.Socket<"buffer">;
let tcp: Server;

async function resolve(query: Buffer): Promise<Buffer> {
  received.push(Buffer.from(query));
  await held?.promise;
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(0x8180, 2);
  header.writeUInt16BE(1, 6);
  header.writeUInt16BE(0, 10);
  const end = query.indexOf(0, 12) + 5;
  return Buffer.concat([header, query.subarray(12, end), ANSWER_DATA]);
}

beforeAll(async () => {
  udp = await Bun.udpSocket({
    hostname: RESOLVER,
    port: DNS_PORT,
    socket: {
      data: (socket, query, port, address) =>
        void resolve(query).then((answer) => {
          // One answer from an address that was not asked, and one to another question: neither may pass.
          socket.send(
            Buffer.concat([Buffer.from([answer[0] ?? 0, ~(answer[1] ?? 0) & 255]), answer.subarray(2)]),
            port,
            address,
          );
          socket.send(answer, port, address);
        }),
    },
  });
  tcp = createServer((socket) => void answerStream(socket)).listen(DNS_PORT, RESOLVER);
  relay = await DnsRelay.open(RELAY, RESOLVER, (source) => matchers.get(source));
});
afterAll(() => {
  relay.close();
  udp.close();
  tcp.close();
});
beforeEach(() => {
  received.length = 0;
  held = undefined;
  matchers.clear();
  matchers.set(NAMES_ONLY, matcher(["allowed.test", "*.wild.test"], ["1.1.1.1/32"], everything));
  matchers.set(ADDRESSES_ONLY, matcher([], ["1.1.1.1/32", "8.8.8.8/32"], ["0.0.0.0/1", "128.0.0.0/1"]));
  matchers.set(LOOSE, matcher([], [], ["8.8.8.8/32"]));
});

async function answerStream(socket: Socket): Promise<void> {
  socket.on("error", () => socket.destroy());
  for await (const query of dnsMessages(socket, 65_535)) socket.write(framed(await resolve(query)));
}

type Ask = (source: string, query: Buffer) => Promise<Buffer>;

const byDatagram: Ask = async (source, query) => {
  const answer = Promise.withResolvers<Buffer>();
  const socket = await Bun.udpSocket({
    hostname: source,
    connect: { hostname: RELAY, port: DNS_PORT },
    socket: { data: (_, message) => answer.resolve(message) },
  });
  try {
    socket.send(query);
    return await answer.promise;
  } finally {
    socket.close();
  }
};

async function sendOnly(source: string, query: Buffer): Promise<void> {
  const socket = await Bun.udpSocket({ hostname: source, connect: { hostname: RELAY, port: DNS_PORT } });
  socket.send(query);
  socket.close();
}

/** All answers to these bytes, sent in these pieces; ends when the relay hangs up or has sent so many answers. */
async function stream(source: string, pieces: readonly Buffer[], answers: number): Promise<Buffer[]> {
  const socket = connect({ host: RELAY, port: DNS_PORT, localAddress: source });
  socket.on("error", () => socket.destroy());
  const found: Buffer[] = [];
  void (async () => {
    for (const piece of pieces) {
      socket.write(piece);
      await Bun.sleep(1);
    }
  })();
  for await (const message of dnsMessages(socket, 65_535)) {
    found.push(message);
    if (found.length === answers) break;
  }
  return found;
}

const byStream: Ask = async (source, query) => (await stream(source, [framed(query)], 1))[0] ?? Buffer.alloc(12);

describe.each([
  ["a datagram", byDatagram],
  ["a connection", byStream],
])("by %s", (_, ask) => {
  async function expectAnswered(source: string, query: Buffer): Promise<void> {
    const answer = await ask(source, query);
    expect(answerHead(answer)).toEqual({ id: 0x1234, code: OK, questions: 1, answers: 1 });
    expect(answer.subarray(-ANSWER_DATA.length)).toEqual(ANSWER_DATA);
  }

  async function expectRefused(source: string, query: Buffer): Promise<void> {
    const answer = await ask(source, query);
    expect(answerHead(answer)).toMatchObject({ id: 0x1234, code: REFUSED, answers: 0 });
    expect(received).toEqual([]);
  }

  test("a sandbox without a policy gets every answer, and its query stays unchanged", async () => {
    const query = dnsQuery("Any.TEST", { counts: [0, 0, 1], extra: Buffer.from("with this") });
    await expectAnswered(OPEN, query);
    // Under an id of the relay's own.
    expect(received.map((message) => message.subarray(2))).toEqual([query.subarray(2)]);
  });

  test("allowed names in any case are answered, all others are rejected and not forwarded", async () => {
    await expectAnswered(NAMES_ONLY, dnsQuery("aLLowed.Test"));
    await expectAnswered(NAMES_ONLY, dnsQuery("deep.below.wild.test", { type: 28 }));
    received.length = 0;
    for (const name of ["other.test", "wild.test", "c2VjcmV0.tunnel.example", "allowed.test.example"]) {
      await expectRefused(NAMES_ONLY, dnsQuery(name));
    }
  });

  test("an answer that arrives after the policy was tightened is dropped", async () => {
    held = Promise.withResolvers();
    const answer = ask(CHANGING, dnsQuery("other.test"));
    await until("the resolver was asked", () => received.length === 1);
    matchers.set(CHANGING, matcher(["allowed.test"], [], everything));
    held.resolve();
    expect(answerHead(await answer)).toEqual({ id: 0x1234, code: REFUSED, questions: 1, answers: 0 });
  });
});

test("each message of a connection is checked, however it is split", async () => {
  const names = ["allowed.test", "other.test", "a.wild.test", "tunnel.example"];
  const bytes = Buffer.concat(names.map((name, id) => framed(dnsQuery(name, { id }))));
  const expected = [OK, REFUSED, OK, REFUSED].map((code, id) => ({ id, code }));
  for (const size of [bytes.length, 1, 7]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    const answers = (await stream(NAMES_ONLY, pieces, names.length)).map(answerHead);
    expect(answers.map(({ id, code }) => ({ id, code }))).toEqual(expected);
  }
});

/** A connection for consecutive queries; undefined: the relay hung up. */
function conversation(source: string) {
  const socket = connect({ host: RELAY, port: DNS_PORT, localAddress: source }).on("error", () => socket.destroy());
  const messages = dnsMessages(socket, 65_535);
  return {
    async codeFor(bytes: Buffer): Promise<number | undefined> {
      socket.write(bytes);
      const next = await messages.next().catch(() => ({ done: true as const, value: undefined }));
      return next.done === true ? undefined : answerHead(next.value).code;
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

test("a tightened policy applies to open connections", async () => {
  using held = conversation(CHANGING);
  const codeOf = (name: string) => held.codeFor(framed(dnsQuery(name)));
  expect(await codeOf("other.test")).toBe(OK);
  matchers.set(CHANGING, matcher(["allowed.test"], [], everything));
  expect(await codeOf("other.test")).toBe(REFUSED);
  expect(await codeOf("allowed.test")).toBe(OK);
});

test.each([
  ["is empty", Buffer.from([0, 0])],
  ["is too long", framed(Buffer.alloc(DNS_QUERY_MAX_BYTES + 1))],
  ["is an answer", framed(dnsQuery("any.test", { flags: 0x8180 }))],
])("a connection ends with a message that %s", async (_, bytes) => {
  using ended = conversation(OPEN);
  expect(await ended.codeFor(framed(dnsQuery("any.test")))).toBe(OK);
  expect(await ended.codeFor(bytes)).toBeUndefined();
});

test("DNS connections of a sandbox are bounded, and do not count for others", async () => {
  const many = Array.from({ length: DNS_CONNECTIONS_PER_SANDBOX_MAX + 3 }, () =>
    connect({ host: RELAY, port: DNS_PORT, localAddress: LOOSE }).on("error", () => undefined),
  );
  await until("those over the bound are closed", () => many.filter(({ destroyed }) => destroyed).length === 3);
  expect(await byStream(OPEN, dnsQuery("any.test")).then(answerHead)).toMatchObject({ code: OK });
  for (const socket of many) socket.destroy();
});

test("DNS queries of a sandbox are bounded, and the connection relay has a larger bound", async () => {
  held = Promise.withResolvers();
  const many = (source: string) =>
    Promise.all(Array.from({ length: DNS_QUERIES_PER_SANDBOX_MAX + 5 }, () => sendOnly(source, dnsQuery("any.test"))));
  await many(OPEN);
  await until("all that may have been passed on", () => received.length >= DNS_QUERIES_PER_SANDBOX_MAX);
  await many(RELAY);
  await until("all of the other's were", () => received.length >= 2 * DNS_QUERIES_PER_SANDBOX_MAX + 5);
  expect(received).toHaveLength(2 * DNS_QUERIES_PER_SANDBOX_MAX + 5);
  held.resolve();
});

test("a client that disconnects or never reads does not harm the relay", async () => {
  held = Promise.withResolvers();
  const socket = connect({ host: RELAY, port: DNS_PORT, localAddress: OPEN });
  socket.write(framed(dnsQuery("any.test")));
  await until("the resolver was asked", () => received.length === 1);
  socket.resetAndDestroy();
  held.resolve();
  for (const ask of [byDatagram, byStream]) {
    expect(answerHead(await ask(OPEN, dnsQuery("any.test"))).code).toBe(OK);
  }
});

test("a sandbox that closes its sockets before the answers costs no other sandbox an answer", async () => {
  held = Promise.withResolvers();
  const answers: Promise<Buffer>[] = [];
  for (let pair = 0; pair < 10; pair++) {
    await sendOnly(OPEN, dnsQuery("any.test"));
    await until("the resolver was asked by the one", () => received.length === 2 * pair + 1);
    answers.push(byDatagram(LOOSE, dnsQuery("any.test")));
    await until("and by the other", () => received.length === 2 * pair + 2);
  }
  held.resolve();
  for (const answer of await Promise.all(answers)) expect(answerHead(answer).code).toBe(OK);
});

test("queries go to the machine's first name server", () => {
  expect(firstNameserver("# x\nsearch lan\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n")).toBe("10.0.0.1");
  expect(firstNameserver("nameserver fd00::1\n")).toBe("fd00::1");
  expect(firstNameserver("")).toBeUndefined();
});

test("each sandbox has its own share of queries, and a finished query frees its place", () => {
  const counter = new KeyedLimit(2);
  expect([counter.add("a"), counter.add("a"), counter.add("a"), counter.add("b")]).toEqual([true, true, false, true]);
  counter.remove("a");
  expect([counter.add("a"), counter.add("a")]).toEqual([true, false]);
});
