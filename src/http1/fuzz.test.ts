/**
 * Fuzzes the parser with damaged messages in pieces of any length, and compares it with a simple model of the whole
 * text (`testing/slow-reader.ts`) and with Node's server. No message may be read in two ways.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { fuzzBytes, SeededRandom } from "../base/testing/fuzz.ts";
import { SEED } from "../base/testing/seed.ts";
import { type Body, BodyUntilClose, ChunkedBody, CountedBody } from "./body.ts";
import { BadHead } from "./head-reader.ts";
import { RequestHeadReader } from "./request-head.ts";
import { ResponseHeadReader, responseLength } from "./response-head.ts";
import { type SlowMessage, slowMessage } from "./testing/slow-reader.ts";

type Bytes = Buffer<ArrayBuffer>;
type Kind = "request" | "response";

type Rules = ConstructorParameters<typeof ChunkedBody>[0];

const MAX_BYTES = 2000;
const BODY = { chunksAtOnce: 2 };
const RAW = { lines: "kept" } as const;
const PLAIN = { lines: "plain", chunksAtOnce: 2 } as const;

function headOf(kind: Kind, pieces: readonly Buffer[], rules: Rules) {
  const reader = kind === "request" ? new RequestHeadReader({ maxBytes: MAX_BYTES }) : undefined;
  const responses = new ResponseHeadReader({ maxBytes: MAX_BYTES });
  for (const [nth, piece] of pieces.entries()) {
    const found = (reader ?? responses).take(piece as Bytes);
    if (found === undefined) continue;
    const { head } = found;
    const first =
      "method" in head
        ? `${head.method} ${head.target} HTTP/1.${head.minorVersion}`
        : `${head.status} ${head.statusText}`;
    const length = "method" in head ? (head.bodyBytes ?? "chunked") : responseLength(head);
    const headers: SlowMessage["headers"] = [];
    head.headers.forEach((value, name) => {
      headers.push([name, value]);
    });
    return { first, headers, body: bodyOf(length, rules), rest: [found.rest, ...pieces.slice(nth + 1)] };
  }
  return undefined;
}

function bodyOf(length: number | "chunked" | "close", rules: Rules): Body {
  if (length === "chunked") return new ChunkedBody(rules);
  return length === "close" ? new BodyUntilClose() : new CountedBody(length);
}

/** The data passed on of an ended body, and the data behind it. */
function passedBy(body: Body, pieces: readonly Buffer[]): { passed: string; rest: string } | undefined {
  const waiting = pieces.map((piece) => Buffer.from(piece));
  let passed = "";
  let surplus = "";
  for (let piece = waiting.shift(); piece !== undefined && !body.ended; piece = waiting.shift()) {
    passed += body.take(piece).toString("latin1");
    surplus = piece.toString("latin1", piece.length - body.surplus);
    const { untaken = 0 } = body;
    if (untaken > 0) waiting.unshift(piece.subarray(piece.length - untaken));
    if (body.ended) return { passed, rest: surplus + Buffer.concat(waiting).toString("latin1") };
  }
  return body.ended ? { passed, rest: Buffer.concat(pieces).toString("latin1") } : undefined;
}

/** The message as the reader has it, in the words of the model; or "refused", or "more". */
function read(kind: Kind, pieces: readonly Buffer[]): SlowMessage | "refused" | "more" {
  try {
    const head = headOf(kind, pieces, BODY);
    const passed = head && passedBy(head.body, head.rest);
    if (head === undefined || passed === undefined) return "more";
    const inForm = (rules: Rules) => {
      const again = headOf(kind, pieces, rules);
      return (again && passedBy(again.body, again.rest)?.passed) ?? "";
    };
    const { first, headers } = head;
    return { first, headers, content: passed.passed, raw: inForm(RAW), plain: inForm(PLAIN), rest: passed.rest };
  } catch (thrown) {
    if (!(thrown instanceof BadHead)) expect((thrown as Error).message).toStartWith("the body has");
    return "refused";
  }
}

const HOST = "Host: a\r\n";
const CHUNKS = "5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nSum: 1\r\n\r\n";

fuzzBytes("a request is parsed as by the model, for every split", {
  seeds: [
    `GET / HTTP/1.1\r\n${HOST}X-Y:  z\t \r\n\r\nmore`,
    `POST /a?b HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n`,
    `PUT * HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n${CHUNKS}more`,
    "GET http://x/ HTTP/1.0\r\n\r\n",
  ].map((text) => Buffer.from(text)),
  cases: 4000,
  check(bytes, random) {
    const inPieces = read("request", random.split(bytes));
    expect(read("request", [Buffer.from(bytes)])).toEqual(inPieces);
    const expected = slowMessage(bytes.toString("latin1"), "request", MAX_BYTES);
    expect(typeof inPieces === "string" ? undefined : inPieces).toEqual(expected);
  },
});

fuzzBytes("a response is parsed as by the model, for every split", {
  seeds: [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nok",
    "HTTP/1.0 404\nA: b\nContent-Length: 4\n\nbody",
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\n\r\n${CHUNKS}`,
    "HTTP/1.1 200 OK\r\n\r\nuntil it ends",
  ].map((text) => Buffer.from(text)),
  cases: 4000,
  check(bytes, random) {
    const inPieces = read("response", random.split(bytes));
    expect(read("response", [Buffer.from(bytes)])).toEqual(inPieces);
    const expected = slowMessage(bytes.toString("latin1"), "response", MAX_BYTES);
    const [, status = "", text = ""] = /^HTTP\/1\.[01] (\d{3}) ?(.*)$/s.exec(expected?.first ?? "") ?? [];
    const known = expected && { ...expected, first: `${status} ${text}` };
    expect(typeof inPieces === "string" ? undefined : inPieces).toEqual(known);
  },
});

/** Requests in a row, as `METHOD target length`, up to the first that is rejected or not whole. */
function ownReading(text: string): string[] {
  const read: string[] = [];
  let rest: Bytes = Buffer.from(text, "latin1");
  try {
    for (;;) {
      const found = new RequestHeadReader({ maxBytes: text.length, skipsEmptyLines: true }).take(rest);
      if (found === undefined) return read;
      const { method, target, bodyBytes, isKept } = found.head;
      const body = bodyOf(bodyBytes ?? "chunked", {});
      const behind = Buffer.from(found.rest);
      const content = body.take(behind);
      if (!body.ended) return read;
      read.push(`${method} ${target} ${content.length}`);
      if (!isKept) return read;
      rest = behind.subarray(behind.length - body.surplus);
    }
  } catch {
    return read;
  }
}

/** Node's own server in a separate process: for each connection, what it parsed, in the same form. */
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

const CASES = 4000;
const REFERENCE_MS = 60_000;

/** Two or three requests in a row, of pieces that are mostly right, with a few bytes changed. */
function madeUp(random: SeededRandom): string {
  const one = <T>(of: readonly T[]): T => random.pick(of);
  const end = () => (random.below(30) === 0 ? one(["\n", "\r", "\r\r\n", " \r\n", "\r\n "]) : "\r\n");
  const length = () => one(["0", "3", "5", "5", "12", "+3", "3, 3", " 3 ", "03", "0x3", "-1", "3;", ""]);
  const coding = () =>
    one(["chunked", "chunked", "Chunked", "chunked, chunked", "identity", "gzip", "xchunked", "\tchunked"]);
  const line = () =>
    one([
      () => `Content-Length${one([":", ":", ":", " :", "\t:"])} ${length()}`,
      () => `Transfer-Encoding${one([":", ":", ":", " :"])} ${coding()}`,
      () => `X-${random.below(9)}: ${one(["a", "", "a\tb", "\x80", "a\x01", "a:b", "a\r\n b"])}`,
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
  for (let left = 2 + random.below(2); left > 0; left--) {
    const method = one(["GET", "GET", "POST", "HEAD", "PUT", "get", "DELETE"]);
    text += `${method} ${one(["/", "/a?b", "/%00", "*", "http://x/y", "/a b", "//"])} HTTP/1.${one([1, 1, 1, 1, 0])}${end()}`;
    text += `Host: a${end()}`;
    for (let lines = random.below(4); lines > 0; lines--) text += line() + end();
    text += end() + one(["", "", "abc", "abcde", chunks(), chunks(), "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"]);
  }
  for (let changes = random.below(3); changes > 0; changes--) {
    const at = random.below(text.length);
    text =
      text.slice(0, at) + one(["", " ", "\r", "\n", "\0", ":", ";", "\t", "0", "a"]) + text.slice(at + random.below(2));
  }
  return text;
}

describe("beside another reader of HTTP", () => {
  const texts: string[] = [];
  let reference: string[][] = [];

  beforeAll(async () => {
    const random = new SeededRandom(SEED);
    for (let nth = 0; nth < CASES; nth++) texts.push(madeUp(random));
    const child = Bun.spawn(["node", "-e", REFERENCE], {
      stdin: new TextEncoder().encode(JSON.stringify(texts)),
      stdout: "pipe",
      stderr: "inherit",
      timeout: REFERENCE_MS,
    });
    reference = JSON.parse(await new Response(child.stdout).text());
  }, REFERENCE_MS);

  test("both readers find the same requests in messages that both accept", () => {
    const differing: unknown[] = [];
    let both = 0;
    for (const [nth, text] of texts.entries()) {
      const own = ownReading(text);
      const theirs = reference[nth] ?? [];
      const shared = Math.min(own.length, theirs.length);
      both += shared;
      // HTTP/1.0 ends with its response here, and may be kept alive there: one may read further, but not differently.
      for (let at = 0; at < shared; at++)
        if (own[at] !== theirs[at]) differing.push({ SANDLOT_TEST_SEED: SEED, text, own, theirs });
    }
    expect(differing).toEqual([]);
    expect(both).toBeGreaterThan(CASES / 8);
  });
});
