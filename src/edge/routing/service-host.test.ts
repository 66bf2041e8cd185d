/** The Host header and TLS that a service sees, as set at the create of its sandbox. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import net from "node:net";
import tls from "node:tls";
import type { RouteAccess } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { closedPort, EdgeUnderTest, hostOf, next, RawService, SANDBOX, UPGRADE } from "../testing/edge-under-test.ts";
import { SELF_SIGNED } from "../testing/self-signed.ts";

let edge: EdgeUnderTest;
beforeEach(() => {
  edge = new EdgeUnderTest();
});
afterEach(() => edge[Symbol.asyncDispose]());

function shape(changes: Partial<RouteAccess>, at: Parameters<EdgeUnderTest["place"]>[0] = {}): void {
  edge.access = { ...edge.access, ...changes };
  edge.place(at);
}

/** The kinds of requests that the edge forwards in different ways. */
const KINDS: [string, string][] = [
  ["a request that fetch carries", "Accept: a/b\r\nUser-Agent: me\r\n"],
  ["a request that it would change", ""],
  ["a WebSocket", UPGRADE],
];

describe("a masked host", () => {
  const answering = () =>
    RawService.start((socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  const hostLines = (received = "") =>
    received
      .toLowerCase()
      .split("\r\n")
      .filter((line) => /^(x-forwarded-.*|forwarded|host):/.test(line))
      .sort();

  test.each(KINDS)("reaches the service, and X-Forwarded-Host has the requested host: %s", async (_name, more) => {
    await using service = await answering();
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what users write.
    shape({ maskRequestHost: "localhost-${PORT}.test:${PORT}" });
    const forged = "X-Forwarded-Host: evil\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: host=evil\r\n";
    await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${forged}${more}\r\n`, (text) =>
      text.endsWith("ok"),
    );
    expect(hostLines(service.received[0])).toEqual([
      `host: localhost-${service.port}.test:${service.port}`,
      `x-forwarded-host: ${hostOf(service.port)}`,
    ]);
  });

  test("has the requested port, also if the service is reached through another", async () => {
    await using service = await answering();
    const port = await closedPort();
    edge.forward = async () => service.port;
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what users write.
    shape({ maskRequestHost: "app:${PORT}" });
    for (let times = 0; times < 2; times++) await edge.fetch(port, "/");
    for (const received of service.received) {
      expect(hostLines(received)).toEqual([`host: app:${port}`, `x-forwarded-host: ${hostOf(port)}`]);
    }
    expect(service.received).toHaveLength(2);
  });

  test("does not apply to the runtime; X-Forwarded-Host has the host of routing headers", async () => {
    await using service = await answering();
    shape({ maskRequestHost: "app.test" }, { runtimePort: service.port });
    await edge.fetch(RUNTIME_PORT, "/metrics");
    expect(hostLines(service.received[0])).toEqual([`host: ${hostOf(RUNTIME_PORT)}`]);
    await fetch(edge.url, {
      headers: { "E2b-Sandbox-Id": SANDBOX, "E2b-Sandbox-Port": String(service.port) },
    });
    expect(hostLines(service.received[1])).toEqual(["host: app.test", `x-forwarded-host: 127.0.0.1:${edge.port}`]);
  });

  test("that is empty keeps the client's", async () => {
    await using service = await answering();
    await edge.fetch(service.port, "/");
    expect(hostLines(service.received[0])).toEqual([`host: ${hostOf(service.port)}`]);
  });
});

describe("a TLS port", () => {
  const MIB = 1024 * 1024;
  const big = crypto.getRandomValues(new Uint8Array(64 * 1024));

  /** Speaks TLS and records the requested names. */
  const start = () => {
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: SELF_SIGNED,
      async fetch(request, server) {
        if (server.upgrade(request)) return undefined;
        const { pathname } = new URL(request.url);
        if (pathname === "/big") return new Response(new ReadableStream({ pull: pieces(64) }));
        const received = request.method === "POST" ? (await request.bytes()).length : 0;
        return new Response(`${request.url} ${received}`);
      },
      websocket: {
        open: (socket) => void socket.send("welcome"),
        message: (socket, message) => void socket.send(message),
      },
    });
    return server;
  };
  const pieces = (count: number) => {
    let left = count;
    return (controller: ReadableStreamDefaultController<Uint8Array>) => {
      if (left-- > 0) controller.enqueue(new Uint8Array(big));
      else controller.close();
    };
  };

  test.each(KINDS.slice(0, 2))("is reached over TLS, whatever its certificate: %s", async (_name, more) => {
    await using service = start();
    shape({ httpsPorts: [service.port ?? 0] });
    const received = await edge.raw(
      `GET /a?b HTTP/1.1\r\nHost: ${hostOf(service.port ?? 0)}\r\nConnection: close\r\n${more}\r\n`,
    );
    expect(received).toStartWith("HTTP/1.1 200 ");
    expect(received).toContain(`https://${hostOf(service.port ?? 0)}/a?b 0`);
  });

  test("carries long bodies completely", async () => {
    await using service = start();
    shape({ httpsPorts: [service.port ?? 0] });
    const body = new Uint8Array(4 * MIB);
    expect(await (await edge.fetch(service.port ?? 0, "/", { method: "POST", body })).text()).toEndWith(` ${4 * MIB}`);
    const received = await (await edge.fetch(service.port ?? 0, "/big")).bytes();
    expect(received.length).toBe(64 * big.length);
    expect(received.subarray(-big.length)).toEqual(big);
    const raw = await edge.raw(`GET /big HTTP/1.0\r\nHost: ${hostOf(service.port ?? 0)}\r\n\r\n`);
    expect(raw.length).toBeGreaterThan(64 * big.length);
  });

  test.each(KINDS.slice(0, 2))("may send a body that ends with the connection: %s", async (_name, more) => {
    const server = tls.createServer(SELF_SIGNED, (socket) => void socket.end("HTTP/1.1 200 OK\r\n\r\nuntil the end"));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as net.AddressInfo;
    shape({ httpsPorts: [port] });
    const received = await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\nConnection: close\r\n${more}\r\n`);
    // Its length or the last chunk says that it is whole.
    expect(received).toMatch(/content-length: 13\r\n\r\nuntil the end$|until the end\r\n0\r\n\r\n$/i);
    server.close();
  });

  test("carries a WebSocket", async () => {
    await using service = start();
    shape({ httpsPorts: [service.port ?? 0] });
    const socket = edge.websocket(service.port ?? 0);
    expect(await next(socket)).toBe("welcome");
    socket.send(big);
    expect(await next(socket)).toEqual(big);
    socket.close();
  });

  test("is reached on a loopback address, too", async () => {
    await using service = start();
    const port = await closedPort();
    edge.forward = async () => service.port;
    shape({ httpsPorts: [port] });
    for (let times = 0; times < 2; times++) {
      expect(await (await edge.fetch(port, "/")).text()).toContain(`https://${hostOf(port)}/`);
    }
    const socket = edge.websocket(port);
    expect(await next(socket)).toBe("welcome");
    socket.close();
  });

  test.each([
    ["the masked host", "app.test:1", "app.test"],
    ["the client's", null, undefined],
    ["localhost where that is a number", "127.0.0.1:1", "localhost"],
  ])("gets the TLS server name from %s", async (_name, maskRequestHost, expected) => {
    for (const [, more] of KINDS) {
      const { promise: requested, resolve } = Promise.withResolvers<string>();
      const server = tls.createServer({
        ...SELF_SIGNED,
        SNICallback: (name, done) => {
          resolve(name);
          done(null, undefined);
        },
      });
      await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
      const { port } = server.address() as net.AddressInfo;
      server.on("secureConnection", (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
      shape({ maskRequestHost, httpsPorts: [port] });
      await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\n${more}\r\n`, (text) => text.includes("\r\n\r\n"));
      expect(await requested).toBe(expected ?? hostOf(port));
      server.close();
    }
  });

  test.each(KINDS)("without a TLS service is a closed port: %s", async (_name, more) => {
    await using service = await plainService((socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    shape({ httpsPorts: [service.port] });
    const received = await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${more}\r\n`, (text) =>
      text.includes("\r\n\r\n"),
    );
    expect(received).toStartWith("HTTP/1.1 502 ");
  });

  test.each(KINDS)("without a handshake is given up when the client disconnects: %s", async (_name, more) => {
    const requested = Promise.withResolvers<net.Socket>();
    await using service = await plainService((socket) => requested.resolve(socket));
    shape({ httpsPorts: [service.port] });
    const client = net.connect(edge.port, "127.0.0.1", () => {
      client.write(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${more}\r\n`);
    });
    const socket = await requested.promise;
    const left = new Promise((resolve) => socket.once("close", resolve));
    client.destroy();
    await left;
  });

  test("does not affect other ports", async () => {
    await using service = await RawService.start(
      (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    );
    shape({ httpsPorts: [service.port + 1, RUNTIME_PORT] }, { runtimePort: service.port });
    expect(await (await edge.fetch(service.port, "/")).text()).toBe("ok");
    expect(await (await edge.fetch(RUNTIME_PORT, "/metrics")).text()).toBe("ok");
  });
});

/** A service without TLS that receives whatever comes first. */
async function plainService(onData: (socket: net.Socket) => void): Promise<{ port: number } & AsyncDisposable> {
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => socket.destroy());
    socket.on("data", () => onData(socket));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    port: (server.address() as net.AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}
