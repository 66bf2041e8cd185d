/** Response heads, and where their bodies end. */
import { expect, test } from "bun:test";
import { BadHead } from "./head-reader.ts";
import { isBodiless, ResponseHeadReader, responseLength } from "./response-head.ts";

const found = (text: string) => new ResponseHeadReader({ maxBytes: 4096 }).take(Buffer.from(text, "latin1"));

test.each([
  ["with CR LF", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest"],
  ["with bare LF", "HTTP/1.1 200 OK\nA: b\n\nrest"],
  ["with both", "HTTP/1.1 200 OK\nA: b\r\n\nrest"],
  ["with a bare LF before an empty line of both", "HTTP/1.1 200 OK\r\nA: b\n\r\nrest"],
])("a head %s is parsed, whole and byte by byte", (_, text) => {
  const end = text.length - "rest".length;
  for (let length = 0; length < end; length++) expect(found(text.slice(0, length))).toBeUndefined();
  const whole = found(text);
  expect(whole?.head).toMatchObject({ status: 200, statusText: "OK" });
  expect([whole?.head.headers.get("a"), whole?.rest.toString()]).toEqual(["b", "rest"]);
});

test.each([
  "ICY 200 OK\r\n\r\n",
  "HTTP/2 200 OK\r\n\r\n",
  "HTTP/1.1 20 OK\r\n\r\n",
  "HTTP/1.1 2000 OK\r\n\r\n",
  "HTTP/1.1 020 OK\r\n\r\n",
  "HTTP/1.1  200 OK\r\n\r\n",
  "HTTP/1.1 200 O\x01K\r\n\r\n",
  "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
  "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
  "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
  "\r\nHTTP/1.1 200 OK\r\n\r\n",
  `HTTP/1.1 200 OK\r\nA: ${"b".repeat(4096)}`,
])("%j is refused", (text) => {
  expect(() => found(text)).toThrow(BadHead);
});

test.each([
  ["", "close"],
  ["Content-Length: 3\r\n", 3],
  ["Transfer-Encoding: Chunked\r\n", "chunked"],
])("the body after %j ends by %p", (lines, length) => {
  const head = found(`HTTP/1.1 200 OK\r\n${lines}\r\n`)?.head;
  expect(head && responseLength(head)).toBe(length as never);
});

test.each([
  "Content-Length: 3\r\nContent-Length: 3\r\n",
  "Content-Length: 3, 3\r\n",
  "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
  "Transfer-Encoding: gzip, chunked\r\n",
])("two lengths or another coding are refused: %j", (lines) => {
  const head = found(`HTTP/1.1 200 OK\r\n${lines}\r\n`)?.head;
  expect(() => head && responseLength(head)).toThrow(BadHead);
});

test("HEAD, 1xx, 204 and 304 have no body", () => {
  const statuses = [100, 103, 200, 204, 205, 304, 404];
  expect(statuses.filter((status) => isBodiless("GET", { status }))).toEqual([100, 103, 204, 304]);
  expect(statuses.every((status) => isBodiless("HEAD", { status }))).toBe(true);
});
