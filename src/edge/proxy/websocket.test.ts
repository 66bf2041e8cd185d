import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import net from "node:net";
import { until } from "../../base/testing/until.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { closedPort, closing, hostOf, next, RawService, UPGRADE } from "../testing/edge-under-test.ts";

/** The events at the service, in order; the tests await them. */
class Diary {
  readonly entries: string[] = [];
  #waiting: (() => void)[] = [];

  note(entry: string): void {
    this.entries.push(entry);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async has(entry: string): Promise<void> {
    while (!this.entries.includes(entry)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

function startService(diary: Diary, protocol?: string) {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request, server) {
      if (new URL(request.url).pathname === "/no") {
        return new Response("members only", { status: 403, headers: { "www-authenticate": "Basic", "x-why": "z" } });
      }
      const { headers } = request;
      diary.note(
        `asked ${request.url} ${headers.get("cookie")} ${headers.get("origin")} ${headers.get("x-sandlot-control")}`,
      );
      headers.delete("sec-websocket-protocol");
      const answer = new Headers({ "set-cookie": "from=service" });
      if (protocol !== undefined) answer.set("sec-websocket-protocol", protocol);
      return server.upgrade(request, { headers: answer }) ? undefined : new Response("no", { status: 400 });
    },
    websocket: {
      maxPayloadLength: 32 * 1024 * 1024,
      backpressureLimit: 32 * 1024 * 1024,
      open: (socket) => void socket.send("welcome"),
      message(socket, message) {
        if (message === "close") socket.close(4001, "because");
        else if (message === "terminate") socket.terminate();
        else if (message === "ping") socket.ping("p");
        else socket.send(message);
      },
      ping: (_socket, payload) => diary.note(`ping ${payload}`),
      pong: (_socket, payload) => diary.note(`pong ${payload}`),
      close: (_socket, code, reason) => diary.note(`close ${code} ${reason}`),
    },
  });
}

const edge = edgeOfFile();

describe("a WebSocket through the edge", () => {
  test("carries the request's headers, the chosen subprotocol, text and binary", async () => {
    const diary = new Diary();
    await using service = startService(diary, "second");
    const socket = edge.websocket(service.port ?? 0, "/chat?room=%20a", {
      "sec-websocket-protocol": "first, second",
      cookie: "k=v",
      origin: "https://page.example",
      "x-sandlot-control": "secret",
    });
    expect(await next(socket)).toBe("welcome");
    expect(socket.protocol).toBe("second");
    expect(diary.entries[0]).toBe(
      `asked http://${hostOf(service.port ?? 0)}/chat?room=%20a k=v https://page.example null`,
    );
    socket.send("grüße");
    expect(await next(socket)).toBe("grüße");
    const bytes = crypto.getRandomValues(new Uint8Array(60_000));
    socket.send(bytes);
    expect(await next(socket)).toEqual(bytes);
    // The edge has no message size limit: a service decides how long a message may be.
    const megabytes = new Uint8Array(24 * 1024 * 1024).fill(7);
    socket.send(megabytes);
    expect(Bun.hash(await next(socket))).toBe(Bun.hash(megabytes));
    const closed = closing(socket);
    socket.close(1000);
    await closed;
  });

  test("chooses no subprotocol where the service chose none, and passes its cookie", async () => {
    await using service = startService(new Diary());
    const received = await edge.raw(
      `GET / HTTP/1.1\r\nHost: ${hostOf(service.port ?? 0)}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n` +
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Protocol: a, b\r\n" +
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
      (text) => text.includes("welcome"),
    );
    expect(received).toStartWith("HTTP/1.1 101 ");
    expect(received).toMatch(/sec-websocket-accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n/i);
    expect(received).toMatch(/set-cookie: from=service/i);
    expect(received).not.toMatch(/sec-websocket-(protocol|extensions)/i);
  });

  test("carries the client's code and reason", async () => {
    const diary = new Diary();
    await using service = startService(diary);
    const socket = edge.websocket(service.port ?? 0);
    await next(socket);
    socket.close(3333, "done");
    await diary.has("close 3333 done");
  });

  test("carries the service's code and reason", async () => {
    await using service = startService(new Diary());
    const socket = edge.websocket(service.port ?? 0);
    await next(socket);
    const closed = closing(socket);
    socket.send("close");
    expect(await closed).toBe("4001 because");
  });

  test("ends abruptly for the client when the service does", async () => {
    await using service = startService(new Diary());
    const socket = edge.websocket(service.port ?? 0);
    await next(socket);
    const closed = closing(socket);
    socket.send("terminate");
    expect(await closed).toStartWith("1006");
  });

  test("ends abruptly for the service when the client does", async () => {
    const diary = new Diary();
    await using service = startService(diary);
    const socket = edge.websocket(service.port ?? 0);
    await next(socket);
    socket.terminate();
    await diary.has("close 1006 ");
  });

  test("carries pings and pongs both ways", async () => {
    const diary = new Diary();
    await using service = startService(diary);
    const socket = edge.websocket(service.port ?? 0);
    await next(socket);
    socket.ping("from client");
    await diary.has("ping from client");
    socket.send("ping");
    await diary.has("pong p");
    socket.close();
  });

  test("works for a service on a loopback address", async () => {
    await using service = startService(new Diary());
    edge.forward = async () => service.port;
    const socket = edge.websocket(await closedPort());
    expect(await next(socket)).toBe("welcome");
    edge.forward = async () => undefined;
    socket.close();
  });
});

describe("a WebSocket that cannot be opened", () => {
  const requestsMade = (port: number, path: string) =>
    edge.raw(
      `GET ${path} HTTP/1.1\r\nHost: ${hostOf(port)}\r\n${UPGRADE}\r\n`,
      (text) => /\r\n\r\n[\s\S]/.test(text) || /content-length: 0/i.test(text),
    );

  test("gets the service's own status, headers and body", async () => {
    await using service = startService(new Diary());
    const received = await requestsMade(service.port ?? 0, "/no");
    expect(received).toStartWith("HTTP/1.1 403 ");
    expect(received).toMatch(/www-authenticate: Basic\r\n/i);
    expect(received).toEndWith("\r\n\r\nmembers only");
  });

  test("is a closed port without a listener", async () => {
    const received = await requestsMade(await closedPort(), "/");
    expect(received).toStartWith("HTTP/1.1 502 ");
    expect(received).toContain('"message":"The sandbox is running but port is not open"');
  });

  test("is not found without a sandbox", async () => {
    edge.end();
    const received = await requestsMade(3000, "/");
    edge.place();
    expect(received).toContain("The sandbox was not found");
  });

  test.each([
    ["hangs up", ""],
    ["does not speak HTTP", "SSH-2.0\r\n\r\n"],
    ["agrees to what was not offered", "HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"],
    ["agrees to nothing in particular", "HTTP/1.1 101 S\r\nConnection: Upgrade\r\n\r\n"],
  ])("is a closed port when the service %s", async (_name, answer) => {
    await using service = await RawService.start((socket) => void socket.end(answer));
    expect(await requestsMade(service.port, "/")).toStartWith("HTTP/1.1 502 ");
    expect(service.sockets.length).toBe(1);
  });
});

describe("an upgraded connection is a tunnel", () => {
  const upgrade = (port: number, protocol: string, connection = "Upgrade") =>
    `GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\nConnection: ${connection}\r\nUpgrade: ${protocol}\r\n\r\n`;
  const AGREED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other/1\r\n\r\n";

  test("whose bytes the edge does not parse, whatever the protocol", async () => {
    await using service = await RawService.start((socket) => {
      socket.write(`${AGREED}from the service\r\n`);
      socket.on("data", (bytes) => void socket.end(bytes));
    });
    const received = await edge.raw(`${upgrade(service.port, "h2c, Other/1")}from the client`);
    expect(service.received[0]).toContain("\r\nConnection: Upgrade\r\nUpgrade: other/1\r\n\r\nfrom the client");
    expect(received).toMatch(
      /^HTTP\/1\.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: other\/1\r\n\r\n/i,
    );
    expect(received).toEndWith("\r\n\r\nfrom the service\r\nfrom the client");
  });

  test.each([
    ["h2c", "Upgrade"],
    ["websocket", "close"],
    ["not a protocol", "Upgrade"],
  ])("except that %s with Connection: %s is not offered to the service", async (protocol, connection) => {
    await using service = await RawService.start((socket) => void socket.end("HTTP/1.1 204 No Content\r\n\r\n"));
    await edge.raw(upgrade(service.port, protocol, connection), (text) => text.includes("\r\n\r\n"));
    expect(service.received[0]).toContain("\r\nConnection: close\r\n\r\n");
    expect(service.received[0]).not.toMatch(/upgrade/i);
  });

  test("that is reset or ended like the service's connection", async () => {
    for (const [how, seen] of [
      ["resetAndDestroy", /ECONNRESET/],
      ["end", /upgrade: other\/1\r\n\r\n$/],
    ] as const) {
      await using service = await RawService.start((socket) => {
        socket.write(AGREED);
        socket.once("data", () => socket[how]());
      });
      const received = await edge.raw(upgrade(service.port, "other/1"), () => false, { afterMs: 10, text: "go" });
      expect(received).toMatch(seen);
    }
  });

  test("with TCP keepalive on both ends", async () => {
    await using service = await RawService.start((socket) => void socket.write(AGREED));
    const client = net.connect(edge.port, "127.0.0.1");
    client.write(upgrade(service.port, "other/1"));
    await once(client, "data");
    const [toClient, toService] = [{ local: edge.port, remote: client.localPort }, { remote: service.port }];
    await until("both have a timer for it", () => hasKeepalive(toClient) && hasKeepalive(toService));
    client.destroy();
  });
});

/** Whether the kernel keeps such a timer for a connection of this machine. */
function hasKeepalive({ local, remote }: { local?: number; remote: number | undefined }): boolean {
  const hex = (port = 0) => port.toString(16).toUpperCase().padStart(4, "0");
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .some(
      ([, from = "", to = "", state, , timer = ""]) =>
        state === "01" &&
        timer.startsWith("02:") &&
        to.endsWith(`:${hex(remote)}`) &&
        (local === undefined || from.endsWith(`:${hex(local)}`)),
    );
}
