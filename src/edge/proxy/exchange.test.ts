/** Exchanges on raw sockets, with all kinds of services. */
import { describe, expect, test } from "bun:test";
import type { Socket } from "node:net";
import { unchunked } from "../../base/testing/unchunked.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService } from "../testing/edge-under-test.ts";
import { EDGE_RESPONSE_HEAD_MAX_BYTES } from "./response-head.ts";

const edge = edgeOfFile();

const answering = (text: string) => RawService.start((socket) => void socket.end(text, "latin1"));
const requestsMade = (service: RawService, method = "GET", more = "") =>
  edge.raw(`${method} /x HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n${more}\r\n`);
const bodyOf = (text = "") => Buffer.from(text.slice(text.indexOf("\r\n\r\n") + 4), "latin1");

describe("the client gets", () => {
  test.each([
    ["a body that ends with the connection", "HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"],
    ["the body of an old server", "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nold", 200, "old"],
    ["a response without carriage returns", "HTTP/1.1 200 OK\nX-A: 1\n\nby hand\r\n\r\n", 200, "by hand"],
    ["a status line without words", "HTTP/1.1 200\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nok", 200, "ok"],
    ["nothing but a status line", "HTTP/1.1 404 Not Found\r\n\r\n", 404, ""],
    [
      "the answer behind interim ones",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
      200,
      "ok",
    ],
    ["nothing behind the announced length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", 200, "he"],
    ["a chunked body of nothing", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, ""],
    ["no body of a 204", "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nyes", 204, ""],
    ["no body of a 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nyes", 304, ""],
    ["no body of a 205", "HTTP/1.1 205 Reset\r\nContent-Length: 3\r\n\r\nyes", 205, ""],
  ])("%s", async (_name, answer, status, body) => {
    await using service = await answering(answer);
    const received = await requestsMade(service);
    const [head = ""] = received.split("\r\n\r\n");
    expect(head).toStartWith(`HTTP/1.1 ${status} `);
    expect(head.toLowerCase()).not.toContain("\r\nlink:");
    const content = bodyOf(received);
    expect((/transfer-encoding: chunked/i.test(head) ? unchunked(content) : content).toString().trimEnd()).toBe(body);
  });

  test("the service's chunks without extensions and trailers, and no chunks with HTTP/1.0", async () => {
    const chunks = "2 \r\nhe\r\n03;x=y\r\nllo\r\n0\r\nX-T: 1\r\n\r\n";
    await using service = await answering(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
    expect(bodyOf(await requestsMade(service)).toString()).toBe("2\r\nhe\r\n03\r\nllo\r\n0\r\n\r\n");
    const old = await edge.raw(`GET /x HTTP/1.0\r\nHost: ${hostOf(service.port)}\r\n\r\n`);
    expect(old.toLowerCase()).not.toContain("transfer-encoding");
    expect(bodyOf(old).toString()).toBe("hello");
  });

  test("each piece before the next exists, also in a response that ends with its connection", async () => {
    await using service = await RawService.start((socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\none"));
    let sent = 0;
    const received = await edge.raw(
      `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n\r\n`,
      (text) => {
        const [socket] = service.sockets;
        if (sent === 0 && text.includes("one")) sent = socket?.write("two") === undefined ? 0 : 1;
        if (sent === 1 && text.includes("two")) {
          sent = 2;
          socket?.end("three");
        }
        return false;
      },
    );
    expect(unchunked(bodyOf(received)).toString()).toBe("onetwothree");
  });
});

describe("the response breaks for the client", () => {
  test("if a response without a length loses its connection", async () => {
    await using service = await RawService.start((socket) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\npart");
    });
    const received = await edge.raw(
      `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\n\r\n`,
      (text) => {
        if (text.includes("part")) service.sockets[0]?.resetAndDestroy();
        return false;
      },
    );
    expect(received).toContain("part");
    expect(received).not.toEndWith("0\r\n\r\n");
  });

  test.each([
    ["hangs up within a chunk", "5\r\nok", true],
    ["sends a chunk longer than announced", "2\r\nokay\r\n0\r\n\r\n", false],
  ])("if the service %s", async (_name, body, hangsUp) => {
    const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    await using service = await RawService.start((socket) => void socket[hangsUp ? "end" : "write"](head + body));
    await expect(edge.fetch(service.port, "/").then((response) => response.text())).rejects.toThrow();
    await untilTrue(() => service.sockets[0]?.destroyed === true);
  });
});

describe("the client gets a closed port", () => {
  test("if the sandbox's runtime sends no length, because its response may be truncated", async () => {
    await using guest = await answering("HTTP/1.1 200 OK\r\n\r\nokay");
    edge.place({ runtimePort: guest.port });
    const response = await edge.fetch(RUNTIME_PORT, "/files?path=/a");
    edge.place();
    expect([response.status, await response.json()]).toMatchObject([502, { port: RUNTIME_PORT, code: 502 }]);
  });

  test.each([
    ["a folded header", "HTTP/1.1 200 OK\r\nX-A: 1\r\n  2\r\nContent-Length: 0\r\n\r\n"],
    ["a status out of range", "HTTP/1.1 700 Odd\r\nContent-Length: 0\r\n\r\n"],
    ["chunks and a length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"],
    ["an endless head", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(EDGE_RESPONSE_HEAD_MAX_BYTES)}`],
    ["endless interim answers", "HTTP/1.1 100 Continue\r\n\r\n".repeat(EDGE_RESPONSE_HEAD_MAX_BYTES / 20)],
    ["a switch of protocols unasked", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
  ])("if the service sends %s", async (_name, answer) => {
    await using service = await answering(answer);
    const received = await requestsMade(service);
    expect(received).toStartWith("HTTP/1.1 502 ");
    expect(received).toContain(`"port":${service.port}`);
  });
});

describe("the service gets the body", () => {
  const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  /** The edge's connection need not be the first: other programs of the machine may find the port. */
  const postedTo = ({ received }: RawService) => received.find((text) => text.startsWith("POST ")) ?? "";

  /** Responds once the data of a connection ends with `end`. */
  const serviceUntil = async (end: string) => {
    const service = await RawService.start((socket: Socket) => {
      const look = () => {
        if (service.received[service.sockets.indexOf(socket)]?.endsWith(end)) socket.end(OK);
      };
      socket.on("data", look);
      look();
    });
    return service;
  };

  test("with its Content-Length", async () => {
    await using service = await serviceUntil("-end");
    const received = await edge.raw(
      `POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\nContent-Length: 13\r\n\r\nfirst `,
      undefined,
      { afterMs: 20, text: "and-end" },
    );
    expect(received).toEndWith("\r\n\r\nok");
    expect(postedTo(service).toLowerCase()).toContain("\r\ncontent-length: 13\r\n");
    expect(bodyOf(postedTo(service)).toString()).toBe("first and-end");
  });

  test("in chunks, if it arrives in chunks", async () => {
    await using service = await serviceUntil("0\r\n\r\n");
    const received = await edge.raw(
      `POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n`,
      undefined,
      { afterMs: 20, text: "6;x=y\r\nsecond\r\n0\r\nX-T: 1\r\n\r\n" },
    );
    expect(received).toEndWith("\r\n\r\nok");
    expect(postedTo(service).toLowerCase()).toContain("\r\ntransfer-encoding: chunked\r\n");
    expect(postedTo(service).toLowerCase()).not.toMatch(/content-length|x-t/);
    expect(unchunked(bodyOf(postedTo(service))).toString()).toBe("firstsecond");
  });

  test("never a part as the whole: its connection is reset when the client disconnects", async () => {
    await using service = await RawService.start(() => undefined);
    const leaving = edge.raw(
      `POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n`,
      () => true,
      { afterMs: 1, text: "not a chunk\r\n" },
    );
    await untilTrue(() => service.sockets[0]?.destroyed === true);
    expect(service.received[0]).not.toContain("\r\n0\r\n");
    await leaving;
  });

  test("only as far as it reads, and an early response is passed on", async () => {
    await using service = await RawService.start((socket) => {
      socket.write("HTTP/1.1 413 Too Large\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nno");
    });
    const received = await edge.raw(
      `POST / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nContent-Length: 100000\r\n\r\nfirst`,
      (text) => text.endsWith("no"),
    );
    expect(received).toStartWith("HTTP/1.1 413 ");
  });
});
