/** Client connections, with a test handler behind them. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { connect as connectHttp2 } from "node:http2";
import net from "node:net";
import { text } from "node:stream/consumers";
import type { Socket } from "bun";
import { untilStill, untilTrue } from "../../base/testing/until.ts";
import { HeaderLines } from "../../http1/header-lines.ts";
import { EDGE_CLOSE_MS, EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MS } from "../limits.ts";
import { SELF_SIGNED } from "../testing/self-signed.ts";
import type { BodySink, ClientRequest } from "./client-request.ts";
import { EdgeListener } from "./edge-listener.ts";
import { EDGE_BUFFERED_MAX_BYTES, Http1Connection } from "./http1-connection.ts";
import { EDGE_UNWANTED_BODY_MAX_BYTES } from "./http1-request.ts";

let front: EdgeListener;
let handle: (request: ClientRequest) => void;
beforeAll(() => {
  front = new EdgeListener({ hostname: "127.0.0.1", port: 0, handle: (request) => handle(request) });
});
afterAll(() => front.stop(true));

const HOST = "Host: a.test\r\n";
const OK = { status: 200, statusText: "OK", headers: new HeaderLines() };
const ok = (request: ClientRequest, text = request.target) => request.respond(OK, "whole", Buffer.from(text));
/** Responds with the body once it is complete. */
const echo = (request: ClientRequest) => {
  const pieces: Buffer[] = [];
  const sink: BodySink = {
    piece: (bytes) => void pieces.push(Buffer.from(bytes)),
    ended: () => ok(request, `${request.target} ${Buffer.concat(pieces)}`),
  };
  if (request.bodyBytes === 0) ok(request);
  else request.sendBodyTo(sink);
};
afterEach(() => {
  handle = echo;
});
beforeAll(() => {
  handle = echo;
});

class Client implements Disposable {
  readonly #socket: net.Socket;
  #received = "";
  #wake = Promise.withResolvers<void>();
  readonly closed: Promise<string>;

  constructor(port = front.port) {
    this.#socket = net.connect(port, "127.0.0.1");
    this.#socket.on("data", (bytes) => {
      this.#received += bytes.toString("latin1");
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    });
    this.#socket.on("error", () => undefined);
    this.closed = new Promise((resolve) => this.#socket.on("close", () => resolve(this.#received)));
  }

  send(text: string): this {
    this.#socket.write(text, "latin1");
    return this;
  }

  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#received)) await this.#wake.promise;
    return this.#received;
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

describe("a connection", () => {
  test("answers pipelined requests one by one in order", async () => {
    using client = new Client();
    const held: ClientRequest[] = [];
    handle = (request) => void held.push(request);
    const requested = ["/1", "/2", "/3"].map((path) => `GET ${path} HTTP/1.1\r\n${HOST}\r\n`);
    client.send(requested.join(""));
    for (const [nth, path] of ["/1", "/2", "/3"].entries()) {
      await untilTrue(() => held.length !== nth);
      expect(held.map(({ target }) => target)).toEqual(["/1", "/2", "/3"].slice(0, nth + 1));
      ok(held[nth] as ClientRequest);
      await client.until(new RegExp(`${path}$`));
    }
  });

  // 32 MiB of responses; the kernel buffers some of it for either side.
  test("whose client reads no responses is not read, and continues when it does", async () => {
    const requested = 16 * 1024;
    let answered = 0;
    handle = (request) => ok(request, `${++answered}`.padEnd(2000));
    const socket = net.connect(front.port, "127.0.0.1").pause();
    socket.write(`GET / HTTP/1.1\r\n${HOST}\r\n`.repeat(requested - 1));
    socket.write(`GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
    await untilStill(() => answered);
    expect(answered).toBeLessThan(requested / 2);
    const bodies = [...(await text(socket)).matchAll(/\r\n\r\n(\d+) +/g)].map(([, nth]) => Number(nth));
    expect(bodies).toEqual(Array.from({ length: requested }, (_, nth) => nth + 1));
  });

  test("gets 100 Continue when the handler reads the body, not before", async () => {
    using client = new Client();
    const requested = Promise.withResolvers<ClientRequest>();
    handle = requested.resolve;
    client.send(`GET /c HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n`);
    echo(await requested.promise);
    expect(await client.until(/\r\n\r\n/)).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("abc");
    expect(await client.until(/abc/)).toEndWith("/c abc");
  });

  test("with Expect: 100-continue and an immediate final response is closed", async () => {
    using client = new Client();
    handle = (request) => ok(request, "no");
    const head = `GET /c HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n`;
    const received = await client.send(head).closed;
    expect(received).toStartWith("HTTP/1.1 200 OK\r\n");
    expect(received).toContain("connection: close\r\n");
  });

  test.each([
    ["asks for that", `GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`],
    ["speaks HTTP/1.0", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"],
  ])("is closed after its response if it %s", async (_name, head) => {
    using client = new Client();
    expect(await client.send(head).closed).toEndWith("connection: close\r\n\r\n/");
  });

  test("of HTTP/1.0 gets a body of unknown length until the close, others in chunks", async () => {
    handle = (request) => {
      request.respond(OK, "follows", Buffer.from("one"));
      request.write(Buffer.from("two"));
      request.end();
    };
    using old = new Client();
    expect(await old.send("GET / HTTP/1.0\r\n\r\n").closed).toEndWith("connection: close\r\n\r\nonetwo");
    using client = new Client();
    const received = await client.send(`GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`).closed;
    expect(received).toEndWith("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
  });

  test("skips a short unread body and continues", async () => {
    using client = new Client();
    handle = (request) => ok(request);
    client.send(`GET /1 HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\n${HOST}\r\n`);
    const received = await client.until(/\/2$/);
    expect(received.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
  });

  // Guards against a response without the header: clients then send their next request on the closing connection.
  test("with a long unread body is closed after its response, which says so", async () => {
    using client = new Client();
    handle = (request) => ok(request, "no");
    const head = `GET /1 HTTP/1.1\r\n${HOST}Content-Length: ${EDGE_UNWANTED_BODY_MAX_BYTES + 1}\r\n\r\n`;
    client.send(`${head}${"x".repeat(EDGE_BUFFERED_MAX_BYTES / 2)}`);
    expect(await client.until(/no$/)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\nconnection: close\r\n/s);
    client[Symbol.dispose]();
  });

  test.each([
    ["400", "GET / HTTP/1.1\r\nHost: a\n\r\n\r\n"],
    ["431", `GET /${"x".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)}`],
    ["431", `GET / HTTP/1.1\r\n${HOST}A: ${"x".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)}`],
    ["501", `GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: gzip\r\n\r\n`],
    ["505", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ])("that sends an invalid request gets %s, and nothing behind it is read", async (status, bytes) => {
    using client = new Client();
    const requests: string[] = [];
    handle = (request) => void requests.push(request.target);
    client.send(`${bytes}GET /smuggled HTTP/1.1\r\n${HOST}\r\n`);
    expect(await client.until(/close\r\n\r\n./)).toStartWith(`HTTP/1.1 ${status} `);
    expect(requests).toEqual([]);
  });

  test("with invalid chunks is cut, and the reader of the body gets an error", async () => {
    using client = new Client();
    const gone = Promise.withResolvers<void>();
    handle = (request) => {
      request.onDisconnect = gone.resolve;
      echo(request);
    };
    client.send(`GET / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nx\r\n`);
    await gone.promise;
    expect(await client.closed).toBe("");
  });

  test("that sends far more than its share is throttled", async () => {
    using client = new Client();
    const requested = Promise.withResolvers<ClientRequest>();
    handle = requested.resolve;
    client.send(`GET /1 HTTP/1.1\r\n${HOST}\r\n`);
    const first = await requested.promise;
    const many = 2000;
    client.send(`GET /2 HTTP/1.1\r\n${HOST}A: ${"x".repeat(100)}\r\n\r\n`.repeat(many));
    handle = (request) => ok(request);
    ok(first);
    client.send(`GET /last HTTP/1.1\r\n${HOST}\r\n`);
    const received = await client.until(/\/last$/);
    expect(received.match(/HTTP\/1\.1 200/g)).toHaveLength(many + 2);
  });
});

test("a stop finishes running requests and accepts no more", async () => {
  const held: ClientRequest[] = [];
  const leaving = new EdgeListener({ hostname: "127.0.0.1", port: 0, handle: (request) => void held.push(request) });
  using busy = new Client(leaving.port);
  using idle = new Client(leaving.port);
  idle.send(`GET /idle HTTP/1.1\r\n${HOST}\r\n`);
  await untilTrue(() => held.length !== 0);
  ok(held.pop() as ClientRequest);
  await idle.until(/idle$/);
  busy.send(`GET /busy HTTP/1.1\r\n${HOST}\r\n`);
  await untilTrue(() => held.length !== 0);
  const stopped = leaving.stop(false);
  expect(await idle.closed).toEndWith("/idle");
  ok(held[0] as ClientRequest);
  expect(await busy.closed).toEndWith("/busy");
  await stopped;
});

test("over HTTP/2 each request has the peer's address, and a stop is announced after the last one only", async () => {
  const held: ClientRequest[] = [];
  const options = { hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED };
  const secure = new EdgeListener({ ...options, handle: (request) => void held.push(request) });
  const session = connectHttp2(`https://127.0.0.1:${secure.port}`, { rejectUnauthorized: false });
  const reported: string[] = [];
  session.on("goaway", () => reported.push("goaway"));
  const answered = ["/1", "/2"].map((path) => text(session.request({ ":path": path })));
  await untilTrue(() => held.length >= 2);
  expect(held.map(({ peer, isSecure, bodyBytes }) => [peer, isSecure, bodyBytes])).toEqual([
    ["127.0.0.1", true, 0],
    ["127.0.0.1", true, 0],
  ]);
  const left = new Promise((resolve) => session.on("close", resolve));
  const stopped = secure.stop(false);
  const [first, second] = held.toSorted((a, b) => a.target.localeCompare(b.target));
  ok(first as ClientRequest);
  expect([await answered[0], reported]).toEqual(["/1", []]);
  ok(second as ClientRequest);
  expect(await answered[1]).toBe("/2");
  await Promise.all([left, stopped]);
  expect(reported).toEqual(["goaway"]);
});

test("over HTTP/2 a client gets 100 Continue when the handler reads the body, and not before", async () => {
  const requested = Promise.withResolvers<ClientRequest>();
  const secure = new EdgeListener({ hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED, handle: requested.resolve });
  const session = connectHttp2(`https://127.0.0.1:${secure.port}`, { rejectUnauthorized: false });
  const head = { ":method": "POST", ":path": "/c", expect: "100-continue", "content-length": "3" };
  const stream = session.request(head, { endStream: false });
  const reported: string[] = [];
  stream.on("continue", () => {
    reported.push("continue");
    stream.end("abc");
  });
  const answered = text(stream);
  const request = await requested.promise;
  reported.push("wanted");
  echo(request);
  expect(await answered).toBe("/c abc");
  expect(reported).toEqual(["wanted", "continue"]);
  session.destroy();
  await secure.stop(true);
});

describe("a slow connection", () => {
  /** One whose socket only remembers that it was cut, and takes so much at a time. */
  function connection(
    answer: (request: ClientRequest) => void,
    { takes = Number.POSITIVE_INFINITY, isStopping = false } = {},
  ) {
    let isCut = false;
    const socket = {
      setKeepAlive: () => true,
      terminate: () => {
        isCut = true;
      },
      end: () => undefined,
      write: (bytes: Buffer) => Math.min(bytes.length, takes),
    };
    const owner = { handle: answer, isSecure: false, idleMs: EDGE_IDLE_MS, isStopping };
    const own = new Http1Connection(socket as unknown as Socket<unknown>, owner);
    const isCutAfter = (ms: number) => {
      own.checkTimeouts(performance.now() + ms);
      return isCut;
    };
    return { own, isCutAfter };
  }
  const SOON = 5000;

  test("with an incomplete head is cut, also if it sends single bytes", () => {
    const { own, isCutAfter } = connection(ok);
    for (const byte of "GET / HT") own.data(Buffer.from(byte));
    expect(isCutAfter(EDGE_REQUEST_HEAD_MS - SOON)).toBe(false);
    own.data(Buffer.from("TP/1.1\r\nA: b"));
    expect(isCutAfter(EDGE_REQUEST_HEAD_MS + SOON)).toBe(true);
  });

  test("between two requests has a longer timeout", () => {
    const { own, isCutAfter } = connection(ok);
    own.data(Buffer.from(`GET / HTTP/1.1\r\n${HOST}\r\n`));
    expect(isCutAfter(EDGE_REQUEST_HEAD_MS + SOON)).toBe(false);
    expect(isCutAfter(EDGE_IDLE_MS + SOON)).toBe(true);
  });

  test("during a body or its response has no timeout, except for an unread body", () => {
    const request = Buffer.from(`GET / HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\n`);
    const read = connection(echo);
    read.own.data(request);
    expect(read.isCutAfter(10 * EDGE_IDLE_MS)).toBe(false);
    const unread = connection(ok);
    unread.own.data(request);
    expect(unread.isCutAfter(EDGE_CLOSE_MS + SOON)).toBe(true);
  });

  test("has the idle timeout for its last response, unless the server is stopping", () => {
    const request = Buffer.from(`GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
    const slow = connection(ok, { takes: 1 });
    slow.own.data(request);
    expect(slow.isCutAfter(EDGE_CLOSE_MS + SOON)).toBe(false);
    expect(slow.isCutAfter(EDGE_IDLE_MS + SOON)).toBe(true);
    const late = connection(ok, { takes: 1, isStopping: true });
    late.own.data(request);
    expect(late.isCutAfter(EDGE_CLOSE_MS + SOON)).toBe(true);
    const inTheWay = connection(ok, { takes: 1 });
    inTheWay.own.data(request);
    inTheWay.own.finish();
    expect(inTheWay.isCutAfter(EDGE_CLOSE_MS + SOON)).toBe(true);
    const whole = connection(ok);
    whole.own.data(request);
    expect(whole.isCutAfter(EDGE_CLOSE_MS + SOON)).toBe(true);
  });
});
