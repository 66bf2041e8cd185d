/**
 * Long bodies through edge processes, moved by the kernel: complete in both directions, and an abort stays an abort.
 * Needs root to drop privileges.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readlinkSync } from "node:fs";
import net from "node:net";
import { unchunked } from "../../../base/testing/unchunked.ts";
import { until, untilStill } from "../../../base/testing/until.ts";
import { hostOf } from "../../../edge/testing/edge-under-test.ts";
import { StartedEdge } from "../../testing/started-edge.ts";

const MIB = 1024 * 1024;
const LONG_BYTES = 24 * MIB;
/** Upper bound for the bytes in transit to a receiver that reads nothing. */
const HELD_MAX_BYTES = 64 * MIB;
const TEST_MS = 300_000;
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");
const LONG = Buffer.alloc(LONG_BYTES);
for (let at = 0; at < LONG_BYTES; at += 4) LONG.writeUInt32LE((at * 2_654_435_761) % 2 ** 32, at);

let edge: StartedEdge;
let serve: (socket: net.Socket, head: string) => void;
const connections = new Set<net.Socket>();
const service = net.createServer((socket) => {
  connections.add(socket);
  socket.on("close", () => connections.delete(socket));
  socket.on("error", () => socket.destroy());
  socket.once("data", (bytes: Buffer) => {
    const end = bytes.indexOf("\r\n\r\n") + 4;
    socket.pause();
    if (end < bytes.length) socket.unshift(bytes.subarray(end));
    serve(socket, bytes.toString("latin1", 0, end));
  });
});
const port = () => (service.address() as net.AddressInfo).port;
const allClosed = () => until("the service's connections are closed", () => connections.size === 0);

/** A client's connection, on which bytes are bytes. */
class Client implements Disposable {
  readonly socket = net.connect(edge.port, "127.0.0.1");
  readonly #pieces: Buffer[] = [];
  gotBytes = 0;
  isClosed = false;

  constructor() {
    this.socket.on("data", (piece: Buffer) => {
      this.#pieces.push(piece);
      this.gotBytes += piece.length;
    });
    this.socket.on("close", () => {
      this.isClosed = true;
    });
    this.socket.on("error", () => undefined);
  }

  ask(method: string, ...headers: string[]): void {
    const lines = [`${method} / HTTP/1.1`, `Host: ${hostOf(port())}`, ...headers, "", ""];
    this.socket.write(lines.join("\r\n"));
  }

  /** The next response with a declared length. */
  async answer(): Promise<{ head: string; body: Buffer }> {
    await until("an answer begins", () => this.#all.includes("\r\n\r\n"));
    const end = this.#all.indexOf("\r\n\r\n") + 4;
    const head = this.#all.toString("latin1", 0, end);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1]);
    await until("the answer is whole", () => this.gotBytes >= end + length || this.isClosed);
    const body = this.#all.subarray(end, end + length);
    const rest = this.#all.subarray(end + length);
    this.#pieces.splice(0, this.#pieces.length, rest);
    this.gotBytes = rest.length;
    return { head, body };
  }

  /** The next chunked response. */
  async chunks(): Promise<Buffer> {
    await until("the answer is whole", () => this.isClosed || this.hasAtItsEnd(LAST_CHUNK));
    const content = unchunked(this.#all.subarray(this.#all.indexOf("\r\n\r\n") + 4));
    this.#pieces.length = 0;
    this.gotBytes = 0;
    return content;
  }

  hasAtItsEnd(bytes: Buffer): boolean {
    return this.#all.subarray(-bytes.length).equals(bytes);
  }

  get #all(): Buffer {
    if (this.#pieces.length > 1) this.#pieces.splice(0, this.#pieces.length, Buffer.concat(this.#pieces));
    return this.#pieces[0] ?? Buffer.alloc(0);
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

const answerWithLong = (socket: net.Socket) => {
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LONG_BYTES}\r\n\r\n`);
  socket.end(LONG);
};
/** Responds with the length and the last bytes of a body, once it is complete. */
const takeLong = (socket: net.Socket) => {
  let [length, isSame] = [0, true];
  socket.on("data", (piece: Buffer) => {
    isSame &&= piece.equals(LONG.subarray(length, length + piece.length));
    length += piece.length;
    if (length < LONG_BYTES) return;
    const text = `${length} ${isSame}`;
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  });
  socket.resume();
};
interface ChunkOptions {
  /** Each size. */
  behind?: string;
  last?: string;
}
/** The same content in chunks of these lengths, in turns. */
const answerInChunks =
  (lengths: number[], { behind = "", last = "0\r\n\r\n" }: ChunkOptions = {}) =>
  (socket: net.Socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (let at = 0, chunk = 0; at < LONG_BYTES; chunk++) {
      const content = LONG.subarray(at, at + (lengths[chunk % lengths.length] ?? 1));
      socket.write(`${content.length.toString(16)}${behind}\r\n`);
      socket.write(content);
      socket.write("\r\n");
      at += content.length;
    }
    socket.end(last);
  };
/** Pipes, which the edge has for this alone. */
const pipes = () =>
  edge.pids.flatMap((pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`))).filter(isPipe)
    .length;
const isPipe = (name: string) => name.startsWith("pipe:");
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

beforeAll(async () => {
  edge = await StartedEdge.open({ processes: 1 });
  await new Promise<void>((listening) => service.listen(0, "127.0.0.1", listening));
  serve = answerWithLong;
  // The thread for it is started by the first, which goes without.
  const before = pipes();
  await until("the kernel moves a body", async () => {
    using client = new Client();
    client.ask("GET");
    await client.answer();
    return pipes() > before + 2;
  });
}, TEST_MS);
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  for (const socket of connections) socket.destroy();
  service.close();
});

test(
  "one connection carries long responses and long bodies in turns, each complete",
  async () => {
    using client = new Client();
    for (let round = 0; round < 3; round++) {
      serve = answerWithLong;
      client.ask("GET");
      const { head, body } = await client.answer();
      expect(head).toStartWith("HTTP/1.1 200 OK\r\n");
      expect(body.equals(LONG)).toBe(true);
      serve = takeLong;
      client.ask("POST", `Content-Length: ${LONG_BYTES}`);
      client.socket.write(LONG);
      expect((await client.answer()).body.toString()).toBe(`${LONG_BYTES} true`);
    }
    expect(client.gotBytes).toBe(0);
    await allClosed();
  },
  TEST_MS,
);

test(
  "a connection whose long body was refused closes, and the response says so",
  async () => {
    using client = new Client();
    serve = (socket) => void socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    client.ask("POST", `Content-Length: ${LONG_BYTES}`);
    client.socket.write(LONG);
    expect((await client.answer()).head).toMatch(/^HTTP\/1\.1 413 .*\r\nconnection: close\r\n/s);
    await until("it is closed", () => client.isClosed);
    // The service has not read the body, so it does not see the end of its connection.
    for (const each of connections) each.destroy();
    await allClosed();
  },
  TEST_MS,
);

test(
  "requests sent behind a long body and during a long response are served next",
  async () => {
    using client = new Client();
    serve = (socket, head) => (head.startsWith("POST") ? takeLong(socket) : answerWithLong(socket));
    client.ask("POST", `Content-Length: ${LONG_BYTES}`);
    client.socket.write(LONG);
    client.ask("GET");
    await until("the body is on its way", () => connections.size > 0);
    client.ask("GET");
    expect((await client.answer()).body.toString()).toBe(`${LONG_BYTES} true`);
    for (let next = 0; next < 2; next++) expect((await client.answer()).body.equals(LONG)).toBe(true);
  },
  TEST_MS,
);

test(
  "a service that responds during the request gets all of it, and its response is complete",
  async () => {
    serve = (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LONG_BYTES}\r\n\r\n`);
      socket.on("data", (piece) => {
        if (!socket.write(piece)) socket.pause();
      });
      socket.on("drain", () => socket.resume());
      socket.resume();
    };
    using client = new Client();
    client.ask("POST", `Content-Length: ${LONG_BYTES}`);
    client.socket.write(LONG);
    expect((await client.answer()).body.equals(LONG)).toBe(true);
    await allClosed();
  },
  TEST_MS,
);

test(
  "a client of HTTP/1.0 gets the content of long chunks without their lines",
  async () => {
    serve = answerInChunks([350_000]);
    using client = new Client();
    client.socket.write(`GET / HTTP/1.0\r\nHost: ${hostOf(port())}\r\n\r\n`);
    await until("the response has ended", () => client.isClosed);
    expect(client.hasAtItsEnd(LONG)).toBe(true);
  },
  TEST_MS,
);

test.each([
  ["long ones", [350_000], {}],
  ["very long ones", [5 * MIB], {}],
  ["long ones with short ones between them", [200_000, 10, 70_000, 16 * 1024, 16 * 1024 - 1], {}],
  ["some long ones, then many short ones", [...Array(20).fill(300_000), ...Array(500).fill(100)], {}],
  ["ones with extensions", [300_000], { behind: ";a=b" }],
  ["ones that trailers follow", [300_000], { last: "0\r\nX-Checksum: 1\r\n\r\n" }],
] as [string, number[], ChunkOptions][])(
  "one connection carries long chunked responses, each complete: %s",
  async (_, lengths, options) => {
    using client = new Client();
    serve = answerInChunks(lengths, options);
    for (let round = 0; round < 3; round++) {
      client.ask("GET");
      expect((await client.chunks()).equals(LONG)).toBe(true);
    }
    await allClosed();
  },
  TEST_MS,
);

describe("a response", () => {
  test(
    "that the service aborts is incomplete for the client",
    async () => {
      serve = (socket) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${2 * LONG_BYTES}\r\n\r\n`);
        socket.end(LONG);
      };
      using client = new Client();
      client.ask("GET");
      await until("it is cut", () => client.isClosed);
      expect(client.gotBytes).toBeLessThan(2 * LONG_BYTES);
    },
    TEST_MS,
  );

  test(
    "in chunks that ends within a chunk is cut for the client",
    async () => {
      serve = answerInChunks([LONG_BYTES - 1, 10], { last: "a\r\nonly 9 of" });
      using client = new Client();
      client.ask("GET");
      await until("it is cut", () => client.isClosed);
      expect(client.hasAtItsEnd(LAST_CHUNK)).toBe(false);
    },
    TEST_MS,
  );

  test(
    "that the client does not read blocks the service, which then sees the disconnect",
    async () => {
      let sent: net.Socket | undefined;
      serve = (socket) => {
        sent = socket;
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${8 * HELD_MAX_BYTES}\r\n\r\n`);
        for (let piece = 0; piece < 2 * HELD_MAX_BYTES; piece += LONG_BYTES) socket.write(LONG);
      };
      using client = new Client();
      client.ask("GET");
      await until("it has begun", () => client.gotBytes > 4 * MIB);
      client.socket.pause();
      expect(await untilStill(() => sent?.writableLength ?? 0)).toBeGreaterThan(HELD_MAX_BYTES / 2);
      client.socket.destroy();
      await allClosed();
    },
    TEST_MS,
  );
});

describe("a body", () => {
  test(
    "that the client aborts is an abort for the service",
    async () => {
      serve = takeLong;
      using client = new Client();
      client.ask("POST", `Content-Length: ${2 * LONG_BYTES}`);
      client.socket.end(LONG);
      await until("it has come", () => connections.size > 0);
      await allClosed();
    },
    TEST_MS,
  );

  test(
    "that the service does not read does not delay the response",
    async () => {
      serve = (socket) => {
        socket.end("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!");
        socket.resume();
      };
      using client = new Client();
      client.ask("POST", `Content-Length: ${8 * LONG_BYTES}`);
      for (let piece = 0; piece < 8; piece++) client.socket.write(LONG);
      const { head, body } = await client.answer();
      expect([head.split("\r\n")[0], body.toString()]).toEqual(["HTTP/1.1 413 Too Large", "no!"]);
    },
    TEST_MS,
  );
});

test(
  "no bytes of a body go to an address after it was given up",
  async () => {
    serve = () => undefined;
    using client = new Client();
    client.ask("POST", `Content-Length: ${8 * HELD_MAX_BYTES}`);
    client.socket.write(LONG);
    await until("it has come", () => connections.size > 0);
    await edge.processes.closeConnectionsTo("127.0.0.1");
    for (const socket of connections) socket.resume();
    await allClosed();
    await until("the client is told", () => client.isClosed || client.gotBytes > 0);
  },
  TEST_MS,
);
