/** Which request heads are rejected, and how the others are parsed. */
import { describe, expect, test } from "bun:test";
import { BadHead } from "./head-reader.ts";
import { RequestHeadReader } from "./request-head.ts";

const BOUNDS = { maxBytes: 4096, maxLines: 20, skipsEmptyLines: true };
const bytesOf = (text: string): Buffer<ArrayBuffer> => Buffer.from(text, "latin1");
const found = (text: string, bounds = BOUNDS) => new RequestHeadReader(bounds).take(bytesOf(text));
const statusOf = (text: string, bounds = BOUNDS): number => {
  try {
    found(text, bounds);
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
    ["with an invalid method", `G(T / HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["of no version", `GET /\r\n${HOST}\r\n`, 400],
    ["of another version", `GET / HTTP/2.0\r\n${HOST}\r\n`, 505],
    ["of HTTP/1.2", `GET / HTTP/1.2\r\n${HOST}\r\n`, 505],
    ["with a control letter in the target", `GET /\x07 HTTP/1.1\r\n${HOST}\r\n`, 400],
    ["of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
    ["of TLS, at its first byte", "\x16", 400],
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
    ["with a name in quotes", `GET / HTTP/1.1\r\n${HOST}"A": b\r\n\r\n`, 400],
    ["with a control character in a value", `GET / HTTP/1.1\r\n${HOST}A: b\x0b\r\n\r\n`, 400],
    ["with a deleted character in a value", `GET / HTTP/1.1\r\n${HOST}A: b\x7f\r\n\r\n`, 400],
    ["with an invalid name", `GET / HTTP/1.1\r\n${HOST}A(b): c\r\n\r\n`, 400],
    ["with two lengths", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400],
    ["with the same length twice", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`, 400],
    ["with a list of lengths", `GET / HTTP/1.1\r\n${HOST}Content-Length: 1, 1\r\n\r\n`, 400],
    ["with a signed length", `GET / HTTP/1.1\r\n${HOST}Content-Length: +1\r\n\r\n`, 400],
    ["with a negative length", `GET / HTTP/1.1\r\n${HOST}Content-Length: -1\r\n\r\n`, 400],
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
    ["with a coding like chunked", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: xchunked\r\n\r\n`, 501],
    ["with no coding at all", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: identity\r\n\r\n`, 501],
    ["with a coding behind a strange space", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: \x0bchunked\r\n\r\n`, 400],
    ["of HTTP/1.0 with chunks", `GET / HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n`, 400],
    ["with a first line beyond its bound", `GET /${"x".repeat(BOUNDS.maxBytes)} HTTP/1.1\r\n`, 431],
    ["with an endless first line", `GET /${"x".repeat(BOUNDS.maxBytes)}`, 431],
    ["with headers beyond their bound", `GET / HTTP/1.1\r\n${HOST}A: ${"x".repeat(BOUNDS.maxBytes)}`, 431],
    ["with too many headers", `GET / HTTP/1.1\r\n${HOST}${"A: b\r\n".repeat(BOUNDS.maxLines)}\r\n`, 431],
  ])("%s", (_name, text, status) => expect(statusOf(text)).toBe(status));
});

describe("a head is read", () => {
  const read = (text: string) => found(text)?.head;

  test.each([
    ["without a body", "", { bodyBytes: 0, isKept: true, awaitsContinue: false }],
    ["with a length", "Content-Length: 007\r\n", { bodyBytes: 7 }],
    ["with a length of 0", "Content-Length: 0\r\n", { bodyBytes: 0 }],
    ["with chunks", "transfer-encoding: Chunked\r\n", { bodyBytes: undefined }],
    ["that closes", "Connection: keep-alive, Close\r\n", { isKept: false }],
    ["that does not close", "Connection: closed, x-close\r\n", { isKept: true }],
    ["that waits", "Content-Length: 1\r\nExpect: 100-Continue\r\n", { awaitsContinue: true }],
    ["of HTTP/1.1 without a wait for 100 Continue", "Expect: 100-continue\r\n", { awaitsContinue: false }],
  ])("%s", (_name, lines, expected) => {
    expect(read(`GET /a?b HTTP/1.1\r\n${HOST}${lines}\r\n`)).toMatchObject({
      method: "GET",
      target: "/a?b",
      minorVersion: 1,
      ...expected,
    });
  });

  test("of HTTP/1.0, which needs no Host and closes after its response", () => {
    expect(read("GET / HTTP/1.0\r\n\r\n")).toMatchObject({ minorVersion: 0, bodyBytes: 0, isKept: false });
  });

  test("after empty lines, and once it is complete", () => {
    const text = `\r\n\r\nGET / HTTP/1.1\r\n${HOST}X-Odd:\t \xe9 \t\r\n\r\nrest`;
    const end = text.length - "rest".length;
    for (let length = 0; length < end; length++) expect(found(text.slice(0, length))).toBeUndefined();
    const whole = found(text);
    expect([whole?.raw.toString("latin1"), whole?.rest.toString()]).toEqual([text.slice(4, end), "rest"]);
    expect(whole?.head.headers.get("x-odd")).toBe("\xe9");
  });
});

test("empty lines before the head are refused unless they are skipped", () => {
  const strict = { ...BOUNDS, skipsEmptyLines: false };
  for (const text of ["\r", "\r\n", "\r\n\r\n", `\r\nGET / HTTP/1.1\r\n${HOST}\r\n`]) {
    expect(statusOf(text, strict)).toBe(400);
    expect(statusOf(text)).toBe(0);
  }
  expect(statusOf("\r\n".repeat(BOUNDS.maxBytes))).toBe(431);
});

test("a reader parses successive heads in pieces of one byte, with the bytes after each", () => {
  const reader = new RequestHeadReader(BOUNDS);
  const text = `GET /1 HTTP/1.1\r\n${HOST}\r\nGET /2 HTTP/1.1\r\n${HOST}A: b\r\n\r\n`;
  const targets: string[] = [];
  for (const letter of text) {
    const head = reader.take(bytesOf(letter));
    if (head !== undefined) targets.push(`${head.head.target} ${head.head.headers.size}`);
  }
  expect(targets).toEqual(["/1 1", "/2 2"]);
  expect(reader.isEmpty).toBe(true);
});
