/** Requests on a raw socket: ones that parsers disagree about, and attempts to use the edge as an open proxy. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService, SANDBOX, UPGRADE } from "../testing/edge-under-test.ts";

const edge = edgeOfFile();
const service = await RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
afterEach(() => {
  service.received.length = 0;
  service.sockets.length = 0;
});
afterAll(() => service[Symbol.asyncDispose]());

const SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
const headed = (text: string) => text.includes("\r\n\r\n");

describe("a request whose length is ambiguous is refused and not forwarded", () => {
  test.each([
    ["length and chunks", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a junk chunk size", "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"],
  ])("%s", async (_name, rest) => {
    const received = await edge.raw(`POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${rest}${SMUGGLED}`);
    expect(received).not.toContain(" 200 ");
    expect(service.received.join("")).not.toContain("smuggled");
    expect(service.received.filter((text) => text.includes("\r\n\r\n")).length).toBeLessThanOrEqual(1);
  });
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

describe("the edge is not an open proxy", () => {
  // Guards against forwarding the method, as does the test of TRACE below.
  test("CONNECT is rejected for a sandbox, and passed to the management API otherwise", async () => {
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

  test("an absolute target reaches only the sandbox of the Host", async () => {
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

  // Guards against a target that is resolved against the address as a URL.
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
    "a Host of %s does not reach another machine",
    async (host) => {
      const received = await edge.raw(
        `GET /p HTTP/1.1\r\nHost: ${host.replace("1-", `${service.port}-`)}\r\n\r\n`,
        (text) => headed(text) && /ok$|host$/.test(text),
      );
      expect(received).toMatch(/^HTTP\/1\.1 (200|400) /);
    },
  );
});

// Guards against Bun's undecoded target of a request without a usable Host: these letters end in the bytes of CR, LF,
// space and "c".
describe("characters that truncate to line ends stay characters", () => {
  const smuggled = "/x\u0120HTTP/1.1\u010d\u010ainjected:\u0120yes\u010d\u010a\u010d\u010aPOST\u0120/smuggled";
  /** In UTF-8, for an exchange that sends one byte for each letter. */
  const sent = (target: string) => Buffer.from(target).toString("latin1");
  const routed = (port: number) => `Host:\r\nE2b-Sandbox-Id: ${SANDBOX}\r\nE2b-Sandbox-Port: ${port}\r\n`;

  test.each([
    ["a plain request", "Connection: close\r\n"],
    ["a WebSocket", UPGRADE],
  ])("in the target of %s", async (_name, more) => {
    const request = `GET ${sent(smuggled)} HTTP/1.1\r\n${routed(service.port)}${more}\r\n`;
    await edge.raw(request, (text) => text.endsWith("ok"));
    expect(service.received.length).toBe(1);
    expect(service.received[0]).toStartWith("GET /x%C4%A0HTTP/1.1%C4%8D%C4%8Ainjected:%C4%A0yes");
    expect(service.received[0]).not.toContain("\ninjected:");
  });

  test("cannot spell a path of the control channel", async () => {
    const request = `GET ${sent("/\u0163ontrol/ping")} HTTP/1.1\r\n${routed(service.port)}${UPGRADE}\r\n`;
    await edge.raw(request, (text) => text.endsWith("ok"));
    expect(service.received[0]).toStartWith("GET /%C5%A3ontrol/ping HTTP/1.1\r\n");
  });
});

// Guards against a request for /hidden?/p or /hidden/p.
test.each(["/hidden?", "/hidden", "#", "\\x", "?x"])("a Host that ends in %s does not change the path", async (end) => {
  for (const host of [
    `${hostOf(service.port)}${end}\r\n`,
    `x${end}\r\nE2b-Sandbox-Id: ${SANDBOX}\r\nE2b-Sandbox-Port: ${service.port}\r\n`,
  ]) {
    const received = await edge.raw(`GET /p HTTP/1.1\r\nHost: ${host}Connection: close\r\n\r\n`, headed);
    expect(received).toStartWith("HTTP/1.1 400 ");
    expect(service.received).toEqual([]);
  }
});

test("a WebSocket handshake with a body is rejected: the next bytes are ambiguous", async () => {
  for (const framed of [
    `Content-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`,
    "Transfer-Encoding: chunked\r\n\r\n",
  ]) {
    const request = `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${UPGRADE}${framed}`;
    expect(await edge.raw(request, headed)).toStartWith("HTTP/1.1 400 ");
  }
  expect(service.received).toEqual([]);
});

test.each([
  ["bad id", "3000-A_B.example.com", "Invalid sandbox ID"],
  ["port 0", `0-${SANDBOX}.example.com`, "Invalid sandbox port"],
  ["port 65536", `65536-${SANDBOX}.example.com`, "Invalid sandbox port"],
  ["letter of another alphabet", "3000-\u00fcber.example.com", "Invalid sandbox ID"],
])("a host name with a %s is answered 400 in plain text", async (_name, host, text) => {
  const response = await fetch(edge.url, { headers: { host } });
  expect(response.status).toBe(400);
  expect(response.headers.get("content-type")).toStartWith("text/plain");
  expect(await response.text()).toBe(text);
});
