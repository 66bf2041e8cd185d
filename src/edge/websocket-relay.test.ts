import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closedPort, closing, EdgeUnderTest, hostOf, next, RawService } from "./testing/edge-under-test.ts";

/** What the service saw, in order; awaited by the tests. */
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

let edge: EdgeUnderTest;
beforeAll(() => {
  edge = new EdgeUnderTest();
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
});

const open = (port: number, path = "/", headers: Record<string, string> = {}) => edge.websocket(port, path, headers);

describe("a WebSocket through the edge", () => {
  test("carries the request's headers, the chosen subprotocol, text and binary", async () => {
    const diary = new Diary();
    await using service = startService(diary, "second");
    const socket = open(service.port ?? 0, "/chat?room=%20a", {
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
    const megabytes = new Uint8Array(5 * 1024 * 1024).fill(7);
    socket.send(megabytes);
    expect(await next(socket)).toEqual(megabytes);
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
    const socket = open(service.port ?? 0);
    await next(socket);
    socket.close(3333, "done");
    await diary.has("close 3333 done");
  });

  test("carries the service's code and reason", async () => {
    await using service = startService(new Diary());
    const socket = open(service.port ?? 0);
    await next(socket);
    const closed = closing(socket);
    socket.send("close");
    expect(await closed).toBe("4001 because");
  });

  test("ends abruptly for the client when the service does", async () => {
    await using service = startService(new Diary());
    const socket = open(service.port ?? 0);
    await next(socket);
    const closed = closing(socket);
    socket.send("terminate");
    expect(await closed).toStartWith("1006");
  });

  test("ends abruptly for the service when the client does", async () => {
    const diary = new Diary();
    await using service = startService(diary);
    const socket = open(service.port ?? 0);
    await next(socket);
    socket.terminate();
    await diary.has("close 1006 ");
  });

  test("carries pings and pongs both ways", async () => {
    const diary = new Diary();
    await using service = startService(diary);
    const socket = open(service.port ?? 0);
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
    const socket = open(await closedPort());
    expect(await next(socket)).toBe("welcome");
    edge.forward = async () => undefined;
    socket.close();
  });
});

describe("a WebSocket that does not come about", () => {
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "x3JJHMbDL1EzLkh9GBhXDw==",
  };
  const asked = (port: number, path: string) =>
    edge.raw(
      `GET ${path} HTTP/1.1\r\nHost: ${hostOf(port)}\r\n${Object.entries(upgrade)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join("")}\r\n`,
      (text) => /\r\n\r\n[\s\S]/.test(text) || /content-length: 0/i.test(text),
    );

  test("is refused with the service's own status, headers and words", async () => {
    await using service = startService(new Diary());
    const received = await asked(service.port ?? 0, "/no");
    expect(received).toStartWith("HTTP/1.1 403 ");
    expect(received).toMatch(/www-authenticate: Basic\r\n/i);
    expect(received).toEndWith("\r\n\r\nmembers only");
  });

  test("is a closed port when nobody listens", async () => {
    const received = await asked(await closedPort(), "/");
    expect(received).toStartWith("HTTP/1.1 502 ");
    expect(received).toContain('"message":"The sandbox is running but port is not open"');
  });

  test("is a sandbox not found when there is none", async () => {
    edge.end();
    const received = await asked(3000, "/");
    edge.place();
    expect(received).toContain("The sandbox was not found");
  });

  test.each([
    ["hangs up", ""],
    ["does not speak HTTP", "SSH-2.0\r\n\r\n"],
    [
      "proves nothing",
      "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n",
    ],
  ])("is a closed port when the service %s", async (_name, answer) => {
    await using service = await RawService.start((socket) => void socket.end(answer));
    expect(await asked(service.port, "/")).toStartWith("HTTP/1.1 502 ");
    expect(service.sockets.length).toBe(1);
  });
});
