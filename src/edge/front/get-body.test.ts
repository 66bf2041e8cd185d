/**
 * GET and HEAD with a body: the body reaches the service over every kind of connection. Guards against Bun's own server
 * in front, which drops such bodies.
 */
import { describe, expect, test } from "bun:test";
import { connect as connectHttp2, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import net from "node:net";
import tls from "node:tls";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService } from "../testing/edge-under-test.ts";

const MIB = 1024 * 1024;
const PIECE = Buffer.alloc(64 * 1024, "a body of GET ");

const edge = edgeOfFile();

/** Responds with a summary of the request: method, framing, length of the body, and its digest. */
class Telling implements AsyncDisposable {
  readonly #server: net.Server;
  /** The first lines of the requests. */
  readonly requests: string[] = [];

  private constructor(server: net.Server) {
    this.#server = server;
    server.on("connection", (socket) => this.#serve(socket));
  }

  static async start(): Promise<Telling> {
    const telling = new Telling(net.createServer());
    await new Promise<void>((resolve) => telling.#server.listen(0, "127.0.0.1", resolve));
    return telling;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: net.Socket): void {
    let head: string | undefined;
    let before = Buffer.alloc(0);
    let body = new BodyCounter("");
    socket.on("error", () => socket.destroy());
    socket.on("data", (bytes: Buffer) => {
      let rest = bytes;
      if (head === undefined) {
        before = Buffer.concat([before, bytes]);
        const end = before.indexOf("\r\n\r\n");
        if (end < 0) return;
        head = before.toString("latin1", 0, end);
        this.requests.push(head.split("\r\n")[0] ?? "");
        rest = before.subarray(end + 4);
        body = new BodyCounter(head);
      }
      body.take(rest);
      if (!body.isWhole) return;
      const method = head.split(" ")[0];
      const reported = `${method} ${body.result}`;
      const words = `X-Told: ${reported}\r\nContent-Length: ${method === "HEAD" ? 5 : reported.length}\r\n\r\n`;
      socket.end(`HTTP/1.1 200 OK\r\n${words}${method === "HEAD" ? "" : reported}`);
    });
  }
}

/** Reads a body, counted or in chunks. */
class BodyCounter {
  readonly #hash = new Bun.CryptoHasher("md5");
  readonly #length: number | undefined;
  readonly #isChunked: boolean;
  #bytes = 0;
  #text = Buffer.alloc(0);
  #isLast = false;

  constructor(head: string) {
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
    this.#length = length === undefined ? undefined : Number(length);
    this.#isChunked = /\r\ntransfer-encoding: chunked/i.test(head);
  }

  get isWhole(): boolean {
    return this.#isChunked ? this.#isLast : this.#bytes >= (this.#length ?? 0);
  }

  get result(): string {
    const framing = this.#isChunked ? "chunked" : this.#length === undefined ? "none" : "counted";
    return `${framing} ${this.#bytes} ${this.#hash.digest("hex")}`;
  }

  take(bytes: Buffer): void {
    if (!this.#isChunked) {
      this.#count(bytes);
      return;
    }
    this.#text = Buffer.concat([this.#text, bytes]);
    for (;;) {
      const end = this.#text.indexOf("\r\n");
      if (end < 0) return;
      const size = Number.parseInt(this.#text.toString("latin1", 0, end), 16);
      if (this.#text.length < end + 2 + size + 2) return;
      this.#count(this.#text.subarray(end + 2, end + 2 + size));
      this.#text = this.#text.subarray(end + 2 + size + 2);
      this.#isLast = size === 0;
      if (this.#isLast) return;
    }
  }

  #count(bytes: Buffer): void {
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
  }
}

function pieces(bytes: number): Buffer[] {
  if (bytes < PIECE.length) return [PIECE.subarray(0, bytes)];
  return Array.from({ length: bytes / PIECE.length }, () => PIECE);
}

function digest(bytes: number): string {
  const hash = new Bun.CryptoHasher("md5");
  for (const piece of pieces(bytes)) hash.update(piece);
  return hash.digest("hex");
}

type Framing = "counted" | "chunked";

interface Asked {
  method: string;
  framing: Framing;
  bytes: number;
  headers: Record<string, string>;
}

/** A way to send a request; returns the service's summary of it. */
type Asking = (request: Asked) => Promise<string>;

function overHttp1(dial: () => net.Socket): Asking {
  return async ({ method, framing, bytes, headers }) => {
    const socket = dial();
    const received = new Promise<string>((resolve, reject) => {
      let text = "";
      socket.on("data", (data) => {
        text += data.toString("latin1");
      });
      socket.on("close", () => resolve(text));
      socket.on("error", reject);
    });
    const length = framing === "counted" ? `Content-Length: ${bytes}` : "Transfer-Encoding: chunked";
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const head = [`${method} /x HTTP/1.1`, ...lines, length, "Connection: close"];
    const write = async (data: string | Buffer) => {
      if (!socket.write(data)) await new Promise((resolve) => socket.once("drain", resolve));
    };
    await write(`${head.join("\r\n")}\r\n\r\n`);
    for (const piece of pieces(bytes)) {
      if (framing === "chunked") await write(`${piece.length.toString(16)}\r\n`);
      await write(piece);
      if (framing === "chunked") await write("\r\n");
    }
    if (framing === "chunked") await write("0\r\n\r\n");
    return /\r\nx-told: (.*)\r\n/i.exec(await received)?.[1] ?? (await received);
  };
}

async function overHttp2({ method, framing, bytes, headers }: Asked): Promise<string> {
  const session = connectHttp2(`https://127.0.0.1:${edge.tlsPort}`, { rejectUnauthorized: false });
  try {
    const { Host: authority, ...others } = headers;
    const lines: OutgoingHttpHeaders = { ":method": method, ":path": "/x", ...others };
    if (authority !== undefined) lines[":authority"] = authority;
    if (framing === "counted") lines["content-length"] = String(bytes);
    const stream = session.request(lines, { endStream: false });
    const answer = new Promise<IncomingHttpHeaders>((resolve, reject) => {
      stream.on("response", resolve);
      stream.on("error", reject);
    });
    stream.resume();
    for (const piece of pieces(bytes)) {
      if (!stream.write(piece)) await new Promise((resolve) => stream.once("drain", resolve));
    }
    stream.end();
    return String((await answer)["x-told"]);
  } finally {
    session.close();
  }
}

const WAYS: [string, Asking][] = [
  ["on the plain listener", overHttp1(() => net.connect(edge.port, "127.0.0.1"))],
  [
    "with TLS over HTTP/1.1",
    overHttp1(() => tls.connect({ host: "127.0.0.1", port: edge.tlsPort, rejectUnauthorized: false })),
  ],
  ["with TLS over HTTP/2", overHttp2],
];

describe.each(WAYS)("%s", (_name, ask) => {
  test.each([
    ["GET", "counted", 1],
    ["GET", "chunked", 1],
    ["HEAD", "counted", 1],
    ["HEAD", "chunked", 1],
    ["GET", "counted", 100 * MIB],
    ["HEAD", "chunked", 4 * MIB],
  ] as [string, Framing, number][])(
    "the body of a %s, %s, of %d bytes, reaches the service that the host names",
    async (method, framing, bytes) => {
      await using service = await Telling.start();
      const reported = await ask({ method, framing, bytes, headers: { Host: hostOf(service.port) } });
      expect(reported).toBe(`${method} ${framing} ${bytes} ${digest(bytes)}`);
    },
  );
});

describe("on a kept connection", () => {
  const smuggled = (port: number) => `GET /smuggled HTTP/1.1\r\nHost: ${hostOf(port)}\r\n\r\n`;

  const counted = (body: string) => `Content-Length: ${body.length}\r\n\r\n${body}`;
  const inChunks = (body: string) =>
    `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

  test.each([
    ["GET", "counted", counted],
    ["GET", "in chunks", inChunks],
    ["HEAD", "counted", counted],
  ])("a request inside the body of a %s, %s, is not executed, and the next request is", async (method, _, framed) => {
    await using service = await Telling.start();
    const host = `Host: ${hostOf(service.port)}\r\n`;
    const body = smuggled(service.port);
    const received = await edge.raw(
      `${method} /first HTTP/1.1\r\n${host}${framed(body)}GET /second HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
    );
    expect(received.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
    expect(received).toContain(` ${body.length} ${new Bun.CryptoHasher("md5").update(body).digest("hex")}`);
    expect(service.requests).toEqual([`${method} /first HTTP/1.1`, "GET /second HTTP/1.1"]);
  });

  test("a late body delays the next request", async () => {
    await using service = await Telling.start();
    const host = `Host: ${hostOf(service.port)}\r\n`;
    const received = await edge.raw(`GET /first HTTP/1.1\r\n${host}Content-Length: 6\r\n\r\nabc`, undefined, {
      afterMs: 50,
      text: `defGET /second HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
    });
    expect(received).toContain("GET counted 6 ");
    expect(service.requests).toEqual(["GET /first HTTP/1.1", "GET /second HTTP/1.1"]);
  });
});

test("a service on a loopback address gets the complete body, although the first connection is refused", async () => {
  await using service = await Telling.start();
  await using closed = await RawService.start(() => undefined);
  const { port } = closed;
  await closed[Symbol.asyncDispose]();
  edge.forward = async () => service.port;
  const [, ask] = WAYS[0] ?? [];
  const reported = await ask?.({ method: "GET", framing: "counted", bytes: MIB, headers: { Host: hostOf(port) } });
  edge.forward = async () => undefined;
  expect(reported).toBe(`GET counted ${MIB} ${digest(MIB)}`);
});

test("a response that cannot be written as HTTP/2 fails, and the next one is complete", async () => {
  await using odd = await RawService.start((socket) => void socket.end("HTTP/1.1 204 No\r\nX-Odd: a\x01b\r\n\r\n"));
  await using service = await Telling.start();
  const request = { method: "GET", framing: "counted", bytes: 1 } as const;
  await overHttp2({ ...request, headers: { Host: hostOf(odd.port) } }).catch(() => "broken");
  expect(await overHttp2({ ...request, headers: { Host: hostOf(service.port) } })).toStartWith("GET counted 1 ");
});
