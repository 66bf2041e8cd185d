import { expect, test } from "bun:test";
import { SEED } from "../../../work/testing/seed.ts";
import { RELAY_HELLO_MAX_BYTES } from "../../limits.ts";
import { Seeded } from "../testing/seeded.ts";
import { Body } from "./body.ts";
import { HeadReader } from "./head-reader.ts";
import { requestOf, responseOf } from "./http-head.ts";

type Verdict = { host: string; framing: unknown; upgrade: boolean } | { refused: string } | "more";

/** What is said of a request that comes in these pieces. */
function verdict(pieces: readonly Buffer[]): Verdict {
  const reader = new HeadReader();
  for (const piece of pieces) {
    const found = reader.add(piece);
    if (found === undefined) continue;
    if ("refused" in found) return found;
    const request = requestOf(found.said.head);
    if ("refused" in request) return request;
    const { host, framing, upgrade } = request;
    return { host, framing, upgrade };
  }
  return "more";
}

function lines(...parts: string[]): Buffer {
  return Buffer.from(`${parts.join("\r\n")}\r\n\r\n`, "latin1");
}

const NO_BODY = { kind: "length", bytes: 0 };

const READ: [string, Buffer, string][] = [
  ["as usual", lines("GET / HTTP/1.1", "Host: a.test"), "a.test"],
  ["HTTP/1.0", lines("GET / HTTP/1.0", "Host: a.test"), "a.test"],
  ["with a port", lines("GET / HTTP/1.1", "Host: a.test:8080"), "a.test"],
  ["with an empty port", lines("GET / HTTP/1.1", "Host: a.test:"), "a.test"],
  ["with the dot of the root", lines("GET / HTTP/1.1", "Host: a.test."), "a.test."],
  ["in other case, with blanks around it", lines("GET / HTTP/1.1", "hOST:\t A.Test \t"), "A.Test"],
  ["with no blank before it", lines("GET / HTTP/1.1", "Host:a.test"), "a.test"],
  ["an absolute address that agrees", lines("GET http://A.test/x HTTP/1.1", "Host: a.test"), "a.test"],
  ["an absolute address that agrees with the port", lines("GET HTTP://a.test:80 HTTP/1.1", "Host: a.test"), "a.test"],
  ["of no path", lines("OPTIONS * HTTP/1.1", "Host: a.test"), "a.test"],
  ["an address, which is no name but its Host", lines("GET / HTTP/1.1", "Host: 10.0.0.1"), "10.0.0.1"],
];

test.each(READ)("the host of a request is read: %s", (_, bytes, host) => {
  expect(verdict([bytes])).toEqual({ host, framing: NO_BODY, upgrade: false });
});

test("the end of the body is read, and whether another protocol is asked for", () => {
  const body = lines("POST / HTTP/1.1", "Host: a.test", "Content-Length: 12");
  expect(verdict([body])).toMatchObject({ framing: { kind: "length", bytes: 12 } });
  const chunked = lines("POST / HTTP/1.1", "Host: a.test", "Transfer-Encoding: Chunked");
  expect(verdict([chunked])).toMatchObject({ framing: { kind: "chunked" } });
  const upgraded = (to: string) => verdict([lines("GET / HTTP/1.1", "Host: a.test", `Upgrade: ${to}`)]);
  expect(upgraded("websocket")).toMatchObject({ upgrade: true });
  // Many hosts could be asked for over it.
  expect(upgraded("h2c")).toMatchObject({ upgrade: false });
  expect(upgraded("websocket, H2C")).toMatchObject({ upgrade: false });
});

const ok = "Host: a.test";
const get = "GET / HTTP/1.1";
const REFUSED: [string, Buffer][] = [
  ["no host", lines(get, "Accept: *")],
  ["two hosts", lines(get, ok, "Host: b.test")],
  ["the same host twice", lines(get, ok, ok)],
  ["an empty host", lines(get, "Host:")],
  ["a host with a user before it", lines(get, "Host: a.test@b.test")],
  ["a host with a path", lines(get, "Host: a.test/b")],
  ["a host with an odd port", lines(get, "Host: a.test:80:80")],
  ["a host in brackets", lines(get, "Host: [2001:db8::1]")],
  ["an absolute address of another host", lines("GET http://b.test/ HTTP/1.1", ok)],
  ["an absolute address with another port", lines("GET http://a.test:81/ HTTP/1.1", ok)],
  ["an absolute address with a user", lines("GET http://a.test@b.test/ HTTP/1.1", ok)],
  ["an absolute address of something else", lines("GET https://a.test/ HTTP/1.1", ok)],
  ["a path that begins with none", lines("GET a.test/ HTTP/1.1", ok)],
  ["a star for something else than OPTIONS", lines("GET * HTTP/1.1", ok)],
  ["CONNECT", lines("CONNECT a.test:80 HTTP/1.1", ok)],
  ["HTTP/0.9", lines("GET /")],
  ["HTTP/2 with prior knowledge", Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")],
  ["HTTP/1.2", lines("GET / HTTP/1.2", ok)],
  ["two blanks", lines("GET  / HTTP/1.1", ok)],
  ["a blank in the path", lines("GET /a b HTTP/1.1", ok)],
  ["a tab for a blank", lines("GET\t/ HTTP/1.1", ok)],
  ["a blank at the end of the line", lines("GET / HTTP/1.1 ", ok)],
  ["an empty line before it", Buffer.concat([Buffer.from("\r\n"), lines(get, ok)])],
  ["nothing but empty lines", Buffer.from("\r\n\r\n")],
  ["a blank before the colon", lines(get, "Host : a.test")],
  ["a line that goes on", lines(get, "Host: a.test", " b.test")],
  ["a line that goes on, first", lines(get, " x: y", ok)],
  ["a line without a colon", lines(get, ok, "Accept")],
  ["a line without a name", lines(get, ok, ": x")],
  ["a name in quotes", lines(get, '"Host": b.test', ok)],
  ["a line that ends with LF", Buffer.from(`${get}\nHost: a.test\r\n\r\n`)],
  ["an end of LF alone", Buffer.from(`${get}\r\nHost: a.test\n\n`)],
  ["a CR in a line", Buffer.from(`${get}\r\nHost: a.test\rHost: b.test\r\n\r\n`)],
  ["a NUL", lines(get, "Host: a.test\0.b.test")],
  ["a control character", lines(get, ok, "X: \x0b")],
  ["a length and an encoding", lines(get, ok, "Content-Length: 3", "Transfer-Encoding: chunked")],
  ["two lengths", lines(get, ok, "Content-Length: 3", "Content-Length: 3")],
  ["a list of lengths", lines(get, ok, "Content-Length: 3, 3")],
  ["a length with a sign", lines(get, ok, "Content-Length: +3")],
  ["a length in hex", lines(get, ok, "Content-Length: 0x3")],
  ["an empty length", lines(get, ok, "Content-Length:")],
  ["a length that no number holds", lines(get, ok, "Content-Length: 99999999999999999999")],
  ["another encoding", lines(get, ok, "Transfer-Encoding: gzip")],
  ["two encodings", lines(get, ok, "Transfer-Encoding: gzip, chunked")],
  ["chunked twice", lines(get, ok, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")],
  ["an encoding that some take for chunked", lines(get, ok, "Transfer-Encoding: xchunked")],
  ["chunked with a vertical tab", lines(get, ok, "Transfer-Encoding: \x0bchunked")],
  ["chunked in HTTP/1.0", lines("GET / HTTP/1.0", ok, "Transfer-Encoding: chunked")],
  ["a host that the next server must not see", lines(get, ok, "Connection: close, Host")],
  ["a head without end", Buffer.from(`${get}\r\nX: ${"x".repeat(RELAY_HELLO_MAX_BYTES)}`)],
  ["TLS", Buffer.from([22, 3, 1, 0, 5])],
];

test.each(REFUSED)("refused: %s", (_, bytes) => {
  expect(verdict([bytes])).toHaveProperty("refused");
});

test("however it is split, the verdict is the same", () => {
  const chance = new Seeded(SEED + 3);
  for (const [, bytes] of [...READ, ...REFUSED]) {
    const whole = verdict([bytes]);
    for (let round = 0; round < 10; round++) expect(verdict(chance.split(bytes))).toEqual(whole);
  }
});

test("whatever becomes of its bytes, there is a verdict or more is wanted, the same in any pieces", () => {
  const chance = new Seeded(SEED + 4);
  const seeds = [...READ.map(([, bytes]) => bytes), ...REFUSED.map(([, bytes]) => bytes)].filter((b) => b.length < 999);
  for (let round = 0; round < 5000; round++) {
    const bytes = chance.mutated(seeds[chance.below(seeds.length)] as Buffer);
    expect(verdict(chance.split(bytes))).toEqual(verdict([bytes]));
  }
});

/** How much of these pieces the body takes, and how it ends. */
function follow(strict: boolean, ...pieces: Buffer[]): number | "broken" | "more" {
  const body = new Body({ kind: "chunked" }, strict);
  let length = 0;
  for (const piece of pieces) {
    const taken = body.take(piece);
    length += taken;
    if (body.isBroken) return "broken";
    if (body.isDone) return length;
  }
  return "more";
}

const CHUNKED: [string, string, number | "broken" | "more"][] = [
  ["one chunk", "3\r\nabc\r\n0\r\n\r\nGET", 13],
  ["in hex, of either case", "A\r\n0123456789\r\n0a\r\n0123456789\r\n00\r\n\r\n", 37],
  ["with trailers", "0\r\nX-Sum: 1\r\n\r\n", 15],
  ["not whole", "3\r\nabc\r\n0\r\n", "more"],
  ["no size", "\r\nabc", "broken"],
  ["a size with a prefix", "0x3\r\nabc\r\n", "broken"],
  ["a size with a sign", "+3\r\nabc\r\n", "broken"],
  ["a size with a blank", "3 \r\nabc\r\n", "broken"],
  ["an extension", "3;a=b\r\nabc\r\n", "broken"],
  ["a size of LF alone", "3\nabc\r\n", "broken"],
  ["a chunk longer than it says", "3\r\nabcd\r\n", "broken"],
  ["a chunk that ends with LF", "3\r\nabc\n0\r\n\r\n", "broken"],
  ["a size that no number holds", "ffffffffffffffffff\r\n", "broken"],
  ["a host that comes too late", "0\r\nHost: b.test\r\n\r\n", "broken"],
  ["a trailer that is none", "0\r\nGET / HTTP/1.1\r\n\r\n", "broken"],
  ["trailers without end", `0\r\nX: ${"x".repeat(20_000)}`, "broken"],
];

test.each(CHUNKED)("a chunked body is followed to its end: %s", (_, text, end) => {
  const bytes = Buffer.from(text);
  const chance = new Seeded(SEED + 5);
  expect(follow(true, bytes)).toBe(end);
  expect(follow(true, ...chance.split(bytes))).toBe(end);
});

test("servers may add extensions to their chunks, clients may not", () => {
  const bytes = Buffer.from("3 ;a=b\r\nabc\r\n0\r\n\r\n");
  expect([follow(false, bytes), follow(true, bytes)]).toEqual([bytes.length, "broken"]);
});

test("the end of a response is known as far as it says", () => {
  const end = (method: string, ...parts: string[]) => responseOf(lines(...parts), method);
  expect(end("GET", "HTTP/1.1 200 OK", "Content-Length: 3")).toEqual({
    status: 200,
    framing: { kind: "length", bytes: 3 },
  });
  expect(end("HEAD", "HTTP/1.1 200 OK", "Content-Length: 3")).toEqual({
    status: 200,
    framing: { kind: "length", bytes: 0 },
  });
  expect(end("GET", "HTTP/1.1 304 Not Modified", "Content-Length: 3")?.framing).toEqual({ kind: "length", bytes: 0 });
  expect(end("GET", "HTTP/1.1 200", "Transfer-Encoding: chunked")?.framing).toEqual({ kind: "chunked" });
  expect(end("GET", "HTTP/1.0 200 OK")?.framing).toEqual({ kind: "close" });
  expect(end("GET", "HTTP/1.1 200 OK", "Content-Length: 3", "Transfer-Encoding: chunked")?.framing).toEqual({
    kind: "close",
  });
  expect(end("GET", "ICY 200 OK")).toBeUndefined();
});
