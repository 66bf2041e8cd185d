/**
 * Requests as they come over a wire, good, bad and made up: what is refused, and that whatever is taken is framed as
 * another reader of HTTP, Node's, frames it.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES } from "../limits.ts";
import { ChunkedBody, CountedBody } from "./body-framing.ts";
import { BadHead, readRequestHead } from "./request-head.ts";

const bytesOf = (text: string): Buffer<ArrayBuffer> => Buffer.from(text, "latin1");
const statusOf = (text: string): number => {
  try {
    readRequestHead(bytesOf(text));
  } catch (failure) {
    if (failure instanceof BadHead) return failure.status;
  }
  return 0;
};

const HOST = "Host: a.test\r\n";

describe("a head is refused", () => {
  test.each([
    ["with no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400],
    ["with two spaces", `GET  / HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["with a tab for a space", `GET\t/ HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["with a space behind the version", `GET / HTTP/1.1 \r\n${HOST}\r\n`, 400],
    ["with a space before the method", ` GET / HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["with a method that is no token", `G(T / HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["of no version", `GET /\r\n${HOST}\r\n`, 400],
    ["of another version", `GET / HTTP/2.0\r\n${HOST}\r\n`, 505],
    ["of HTTP/1.2", `GET / HTTP/1.2\r\n${HOST}\r\n`, 505],
    ["with a control letter in the target", `GET /\x07 HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
    ["of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\r\n\r\n", 400],
    ["without Host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", 400],
    ["with two Hosts", `GET / HTTP/1.1\r\n${HOST}${HOST}\r\n`, 400],
    ["with two Hosts in other letters", `GET / HTTP/1.1\r\n${HOST}hOST: b.test\r\n\r\n`, 400],
    ["with a bare LF behind its first line", `GET / HTTP/1.1\n${HOST}\r\n`, 400],
    ["with a bare LF behind a header", `GET / HTTP/1.1\r\n${HOST}A: b\nC: d\r\n\r\n`, 400],
    ["with bare LFs at its end", `GET / HTTP/1.1\r\n${HOST}A: b\n\n`, 400],
    ["with a bare CR in a value", `GET / HTTP/1.1\r\n${HOST}A: b\rC: d\r\n\r\n`, 400],
    ["with a bare CR before a colon", `GET / HTTP/1.1\r\n${HOST}A\r: b\r\n\r\n`, 400],
    ["with a zero byte", `GET / HTTP/1.1\r\n${HOST}A: b\0\r\n\r\n`, 400],
    ["with a folded header", `GET / HTTP/1.1\r\n${HOST}A: b\r\n c\r\n\r\n`, 400],
    ["with a header folded by a tab", `GET / HTTP/1.1\r\n${HOST}A: b\r\n\tc: d\r\n\r\n`, 400],
    ["with a first header that is folded", `GET / HTTP/1.1\r\n ${HOST}\r\n`, 400],
    ["with a space before a colon", `GET / HTTP/1.1\r\n${HOST}A : b\r\n\r\n`, 400],
    ["with no colon", `GET / HTTP/1.1\r\n${HOST}A\r\n\r\n`, 400],
    ["with an empty name", `GET / HTTP/1.1\r\n${HOST}: b\r\n\r\n`, 400],
    ["with a name that is no token", `GET / HTTP/1.1\r\n${HOST}A(b): c\r\n\r\n`, 400],
    ["with two lengths", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400],
    ["with the same length twice", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`, 400],
    ["with a list of lengths", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1, 1\r\n\r\n`, 400],
    ["with a signed length", `GET / HTTP/1.1\r\n${HOST}Content-Length: +1\r\n\r\n`, 400],
    ["with a hexadecimal length", `GET / HTTP/1.1\r\n${HOST}Content-Length: 0x1\r\n\r\n`, 400],
    ["with an empty length", `GET / HTTP/1.1\r\n${HOST}Content-Length:\r\n\r\n`, 400],
    ["with a length beyond all", `GET / HTTP/1.1\r\n${HOST}Content-Length: ${"9".repeat(16)}\r\n\r\n`, 400],
    [
      "with a length and chunks",
      `GET / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
      400,
    ],
    [
      "with chunks twice",
      `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
      400,
    ],
    ["with chunks within a list", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked, chunked\r\n\r\n`, 501],
    ["with another coding", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip, chunked\r\n\r\n`, 501],
    ["with no coding at all", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: identity\r\n\r\n`, 501],
    ["with a coding behind a strange space", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: \x0bchunked\r\n\r\n`, 400],
    ["of HTTP/1.0 with chunks", `GET / HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n`, 400],
    ["with a first line beyond its bound", `GET /${"x".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)} HTTP/1.1\r\n`, 431],
    ["with an endless first line", `GET /${"x".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)}`, 431],
    ["with headers beyond their bound", `GET / HTTP/1.1\r\n${HOST}A: ${"x".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)}`, 431],
    ["with too many headers", `GET / HTTP/1.1\r\n${HOST}${"A: b\r\n".repeat(EDGE_REQUEST_HEAD_MAX_LINES)}\r\n`, 431],
  ])("%s", (_name, text, status) => expect(statusOf(text)).toBe(status));
});

describe("a head is read", () => {
  const read = (text: string) => readRequestHead(bytesOf(text))?.head;

  test.each([
    ["without a body", "", { bodyBytes: 0, isKept: true, awaitsContinue: false }],
    ["with a length", "Content-Length: 007\r\n", { bodyBytes: 7 }],
    ["with a length of 0", "Content-Length: 0\r\n", { bodyBytes: 0 }],
    ["with chunks", "transfer-encoding: Chunked\r\n", { bodyBytes: undefined }],
    ["that closes", "Connection: keep-alive, Close\r\n", { isKept: false }],
    ["that does not", "Connection: closed, x-close\r\n", { isKept: true }],
    ["that waits", "Content-Length: 1\r\nExpect: 100-Continue\r\n", { awaitsContinue: true }],
    ["that waits for nothing", "Expect: 100-continue\r\n", { awaitsContinue: false }],
  ])("%s", (_name, lines, expected) => {
    expect(read(`GET /a?b HTTP/1.1\r\n${HOST}${lines}\r\n`)).toMatchObject({
      method: "GET",
      target: "/a?b",
      minorVersion: 1,
      ...expected,
    });
  });

  test("of HTTP/1.0, which needs no Host and is over with its answer", () => {
    expect(read("GET / HTTP/1.0\r\n\r\n")).toMatchObject({ minorVersion: 0, bodyBytes: 0, isKept: false });
  });

  test("behind empty lines, and not before it is whole", () => {
    const text = `\r\n\r\nGET / HTTP/1.1\r\n${HOST}X-Odd:\t \xe9 \t\r\n\r\nrest`;
    const end = text.length - "rest".length;
    for (let length = 0; length < end; length++)
      expect(readRequestHead(bytesOf(text.slice(0, length)))).toBeUndefined();
    const whole = readRequestHead(bytesOf(text));
    expect(whole?.end).toBe(end);
    expect(whole?.head.headers.get("x-odd")).toBe("\xe9");
  });
});

/** Requests in a row, as `METHOD target length`, up to the first that is refused or not whole. */
function ownReading(text: string): string[] {
  const read: string[] = [];
  let rest = bytesOf(text);
  try {
    for (;;) {
      const found = readRequestHead(rest);
      if (found === undefined) return read;
      const { method, target, bodyBytes, isKept } = found.head;
      const framing = bodyBytes === undefined ? new ChunkedBody() : new CountedBody(bodyBytes);
      const content = framing.take(Buffer.from(rest.subarray(found.end)));
      if (!framing.ended) return read;
      read.push(`${method} ${target} ${content.length}`);
      if (!isKept) return read;
      rest = rest.subarray(rest.length - framing.surplus);
    }
  } catch {
    return read;
  }
}

/** Node's own server, in a process of its own: for each connection, what it reads, in the same words. */
const REFERENCE = `
  const http = require("node:http");
  const { Duplex } = require("node:stream");
  const server = http.createServer({ keepAliveTimeout: 0 });
  server.on("upgrade", (request, socket) => socket.destroy());
  // What it took before is still to be told.
  server.on("clientError", () => undefined);
  function readingOf(text) {
    const read = [];
    const stream = new Duplex({ read() {}, write(_bytes, _encoding, done) { done(); } });
    stream.read_ = read;
    server.emit("connection", stream);
    return new Promise((resolve) => {
      stream.on("error", () => undefined);
      stream.on("close", () => resolve(read));
      stream.push(Buffer.from(text, "latin1"));
      // It tells of no end: as long as anything is read, something is under way.
      let seen = -1;
      const look = () => {
        if (seen === read.length) stream.destroy();
        else setTimeout(look, 200);
        seen = read.length;
      };
      look();
    });
  }
  const answer = (request, response) => {
    let bytes = 0;
    const { read_ } = request.socket;
    request.on("data", (piece) => { bytes += piece.length; });
    request.on("end", () => { read_.push(request.method + " " + request.url + " " + bytes); response.end(); });
  };
  server.on("request", answer);
  server.on("checkContinue", answer);
  server.on("checkExpectation", answer);
  let input = "";
  process.stdin.setEncoding("utf8");
  process.stdin.on("data", (text) => { input += text; });
  process.stdin.on("end", async () => {
    const all = await Promise.all(JSON.parse(input).map(readingOf));
    process.stdout.write(JSON.stringify(all), () => process.exit(0));
  });
`;

const SEED = 20_261_116;
const CASES = 4000;
const REFERENCE_MS = 60_000;

/** The same on every run (mulberry32). */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Two or three requests in a row, of pieces that are mostly right, with a few bytes changed. */
function madeUp(random: (below: number) => number): string {
  const one = <T>(of: readonly T[]): T => of[random(of.length)] as T;
  const end = () => (random(30) === 0 ? one(["\n", "\r", "\r\r\n", " \r\n", "\r\n "]) : "\r\n");
  const length = () => one(["0", "3", "5", "5", "12", "+3", "3, 3", " 3 ", "03", "0x3", "-1", "3;", ""]);
  const coding = () =>
    one(["chunked", "chunked", "Chunked", "chunked, chunked", "identity", "gzip", "xchunked", "\tchunked"]);
  const line = () =>
    one([
      () => `Content-Length${one([":", ":", ":", " :", "\t:"])} ${length()}`,
      () => `Transfer-Encoding${one([":", ":", ":", " :"])} ${coding()}`,
      () => `X-${random(9)}: ${one(["a", "", "a\tb", "\x80", "a\x01", "a:b", "a\r\n b"])}`,
      () => one(["Connection: close", "Connection: keep-alive", "Expect: 100-continue", "Host: b", "no colon", ": x"]),
    ])();
  const chunks = () =>
    one([
      "3\r\nabc\r\n0\r\n\r\n",
      "3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
      "3\nabc\n0\n\n",
      "03\r\nabc\r\n0\r\n\r\n",
      "3 \r\nabc\r\n0\r\n\r\n",
      "4\r\nabc\r\n0\r\n\r\n",
      "x\r\n",
      "0\r\n\r\n",
    ]);
  let text = "";
  for (let left = 2 + random(2); left > 0; left--) {
    const method = one(["GET", "GET", "POST", "HEAD", "PUT", "get", "DELETE"]);
    text += `${method} ${one(["/", "/a?b", "/%00", "*", "http://x/y", "/a b", "//"])} HTTP/1.${one([1, 1, 1, 1, 0])}${end()}`;
    text += `Host: a${end()}`;
    for (let lines = random(4); lines > 0; lines--) text += line() + end();
    text += end() + one(["", "", "abc", "abcde", chunks(), chunks(), "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"]);
  }
  for (let changes = random(3); changes > 0; changes--) {
    const at = random(text.length);
    text = text.slice(0, at) + one(["", " ", "\r", "\n", "\0", ":", ";", "\t", "0", "a"]) + text.slice(at + random(2));
  }
  return text;
}

describe("beside another reader of HTTP", () => {
  const texts: string[] = [];
  let reference: string[][] = [];

  beforeAll(async () => {
    const random = generator(SEED);
    for (let nth = 0; nth < CASES; nth++) texts.push(madeUp(random));
    const child = Bun.spawn(["node", "-e", REFERENCE], {
      stdin: new TextEncoder().encode(JSON.stringify(texts)),
      stdout: "pipe",
      stderr: "inherit",
      timeout: REFERENCE_MS,
    });
    reference = JSON.parse(await new Response(child.stdout).text());
  }, REFERENCE_MS);
  afterAll(() => {
    texts.length = 0;
  });

  test("of what both take, both find the same requests", () => {
    const differing: unknown[] = [];
    let both = 0;
    for (const [nth, text] of texts.entries()) {
      const own = ownReading(text);
      const theirs = reference[nth] ?? [];
      const shared = Math.min(own.length, theirs.length);
      both += shared;
      // HTTP/1.0 is over with its answer here, and may be kept there: so one may read on, but none may read otherwise.
      for (let at = 0; at < shared; at++) if (own[at] !== theirs[at]) differing.push({ text, own, theirs });
    }
    expect(differing).toEqual([]);
    expect(both).toBeGreaterThan(CASES / 8);
  });
});
