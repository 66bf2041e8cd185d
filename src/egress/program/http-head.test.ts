/** Which host a request is for, and which requests the relay rejects. `src/http1` tests which heads are well-formed. */
import { expect, test } from "bun:test";
import { BadHead } from "../../http1/head-reader.ts";
import { RequestHeadReader } from "../../http1/request-head.ts";
import { type HttpRequest, requestOf } from "./http-head.ts";

/** The relay's verdict on a request. */
function verdict(bytes: Buffer<ArrayBuffer>): HttpRequest | { refused: string } | "more" {
  try {
    const found = new RequestHeadReader({ maxBytes: 4096 }).take(bytes);
    return found === undefined ? "more" : requestOf(found.head, "http");
  } catch (thrown) {
    if (thrown instanceof BadHead) return { refused: thrown.message };
    throw thrown;
  }
}

function lines(...parts: string[]): Buffer<ArrayBuffer> {
  return Buffer.from(`${parts.join("\r\n")}\r\n\r\n`, "latin1");
}

const READ: [string, Buffer<ArrayBuffer>, string][] = [
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
  expect(verdict(bytes)).toMatchObject({ host, bodyBytes: 0, upgrade: false });
});

test("body framing and upgrade requests are parsed", () => {
  const body = lines("POST / HTTP/1.1", "Host: a.test", "Content-Length: 12");
  expect(verdict(body)).toMatchObject({ bodyBytes: 12 });
  const chunked = lines("POST / HTTP/1.1", "Host: a.test", "Transfer-Encoding: Chunked");
  expect(verdict(chunked)).toMatchObject({ bodyBytes: undefined });
  const upgraded = (to: string) => verdict(lines("GET / HTTP/1.1", "Host: a.test", `Upgrade: ${to}`));
  expect(upgraded("websocket")).toMatchObject({ upgrade: true });
  // Requests for many hosts could follow on it.
  expect(upgraded("h2c")).toMatchObject({ upgrade: false });
  expect(upgraded("websocket, H2C")).toMatchObject({ upgrade: false });
});

const ok = "Host: a.test";
const get = "GET / HTTP/1.1";
const REFUSED: [string, Buffer<ArrayBuffer>][] = [
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
  ["an empty line before it", Buffer.concat([Buffer.from("\r\n"), lines(get, ok)])],
  ["a length and an encoding", lines(get, ok, "Content-Length: 3", "Transfer-Encoding: chunked")],
  ["a host that the next server must not see", lines(get, ok, "Connection: close, Host")],
];

test.each(REFUSED)("refused: %s", (_, bytes) => {
  expect(verdict(bytes)).toHaveProperty("refused");
});
