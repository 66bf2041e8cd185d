/** What arrives on a bare socket: requests that parsers disagree about, and attempts to use the edge as an open proxy. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { EdgeUnderTest, hostOf, RawService, SANDBOX } from "./edge-under-test.ts";

let edge: EdgeUnderTest;
let service: RawService;
beforeAll(async () => {
  edge = new EdgeUnderTest();
  service = await RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
});
afterEach(() => {
  service.received.length = 0;
  service.sockets.length = 0;
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

const SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
const headed = (text: string) => text.includes("\r\n\r\n");

describe("a request whose length is ambiguous is refused and not forwarded", () => {
  test.each([
    ["length and chunks", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["chunks and length", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n"],
    ["two lengths", "Content-Length: 0\r\nContent-Length: 40\r\n\r\n"],
    ["a list of lengths", "Content-Length: 0, 40\r\n\r\n"],
    ["a signed length", "Content-Length: +0\r\n\r\n"],
    ["a negative length", "Content-Length: -1\r\n\r\n"],
    ["an unknown coding", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"],
    ["a coding before chunks", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
    ["a space before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"],
    ["a junk chunk size", "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"],
  ])("%s", async (_name, rest) => {
    const received = await edge.raw(`POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${rest}${SMUGGLED}`);
    expect(received).not.toContain(" 200 ");
    expect(service.received.join("")).not.toContain("smuggled");
    expect(service.received.filter((text) => text.includes("\r\n\r\n")).length).toBeLessThanOrEqual(1);
  });
});

test.each(["GET", "HEAD"])("a %s with a body is refused, and its body is not taken for a request", async (method) => {
  const body = `GET /smuggled HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`;
  const next = `GET /next HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n\r\n`;
  const received = await edge.raw(
    `${method} / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nContent-Length: ${body.length}\r\n\r\n${body}${next}`,
    (text) => text.endsWith("ok"),
  );
  expect(received).toStartWith("HTTP/1.1 501 ");
  expect(service.received.map((text) => text.split("\r\n")[0])).toEqual(["GET /next HTTP/1.1"]);
});

test("pipelined requests never share a connection and never arrive twice", async () => {
  const one = (path: string) => `POST ${path} HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nContent-Length: 1\r\n\r\nx`;
  await edge.raw(one("/a") + one("/b") + one("/c"), (text) => text.endsWith("ok"));
  const next = `GET /after HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`;
  await edge.raw(next, (text) => text.endsWith("ok"));
  const paths = service.received.map((text) => text.match(/^[A-Z]+ \S+ HTTP/gm)?.join());
  expect(paths.at(-1)).toBe("GET /after HTTP");
  expect(new Set(paths).size).toBe(paths.length);
});

test("two Host headers are refused", async () => {
  const received = await edge.raw(
    `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nHost: ${hostOf(49983)}\r\n\r\n`,
    headed,
  );
  expect(received).toStartWith("HTTP/1.1 400 ");
  expect(service.received).toEqual([]);
});

describe("the edge is no open proxy", () => {
  test("CONNECT is refused for a sandbox, and is management's business otherwise", async () => {
    const host = hostOf(service.port);
    expect(await edge.raw(`CONNECT ${host}:80 HTTP/1.1\r\nHost: ${host}\r\n\r\n`, headed)).toStartWith("HTTP/1.1 405 ");
    const other = `127.0.0.1:${service.port}`;
    expect(await edge.raw(`CONNECT ${other} HTTP/1.1\r\nHost: ${other}\r\n\r\n`, headed)).toEndWith("management");
    expect(service.received).toEqual([]);
  });

  test("TRACE is refused", async () => {
    const received = await edge.raw(`TRACE / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`, headed);
    expect(received).toStartWith("HTTP/1.1 405 ");
  });

  test("an absolute target leads nowhere but to the host's sandbox", async () => {
    await using elsewhere = await RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\n\r\nevil"));
    const target = `http://127.0.0.1:${elsewhere.port}/path`;
    const received = await edge.raw(`GET ${target} HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`, (text) =>
      text.endsWith("ok"),
    );
    expect(received).toEndWith("ok");
    expect(service.received[0]).toStartWith("GET /path HTTP/1.1\r\n");
    expect(elsewhere.received).toEqual([]);
    expect(await edge.raw(`GET ${target} HTTP/1.1\r\nHost: api.example.com\r\n\r\n`, headed)).toEndWith("management");
    expect(elsewhere.received).toEqual([]);
  });

  test.each(["//evil.example/x", "/@evil.example/", "/\\evil.example", "/:80@evil.example/"])(
    "the target %s stays a path",
    async (target) => {
      const received = await edge.raw(`GET ${target} HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`, (text) =>
        text.endsWith("ok"),
      );
      expect(received).toEndWith("ok");
      expect(service.received.length).toBe(1);
    },
  );

  test.each([`1-${SANDBOX}.x@evil.example`, `1-${SANDBOX}.x/../y`])(
    "a Host of %s names no other machine",
    async (host) => {
      const received = await edge.raw(
        `GET /p HTTP/1.1\r\nHost: ${host.replace("1-", `${service.port}-`)}\r\n\r\n`,
        (text) => headed(text) && /ok$|host$/.test(text),
      );
      expect(received).toMatch(/^HTTP\/1\.1 (200|400) /);
    },
  );
});

test.each([
  ["bad id", "3000-A_B.example.com", "Invalid sandbox ID"],
  ["port 0", `0-${SANDBOX}.example.com`, "Invalid sandbox port"],
  ["port 65536", `65536-${SANDBOX}.example.com`, "Invalid sandbox port"],
])("a host name with a %s is answered 400 in plain text", async (_name, host, text) => {
  const response = await fetch(edge.server.url, { headers: { host } });
  expect(response.status).toBe(400);
  expect(response.headers.get("content-type")).toStartWith("text/plain");
  expect(await response.text()).toBe(text);
});
