/**
 * Downloads from the guest: complete, counted and in chunks, and a broken one is not taken for complete. For bodies of
 * any service see carried-requests.test.ts and proxy/exchange.test.ts.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import net from "node:net";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { EdgeUnderTest } from "./testing/edge-under-test.ts";

const MIB = 1024 * 1024;
/** A loopback address of this process's own, since the guest's port is one and the same in every sandbox. */
const ADDRESS = `127.83.${(process.pid >> 8) & 255}.${process.pid & 255}`;

let edge: EdgeUnderTest;
let answer: (socket: net.Socket, head: string) => void;
const connections = new Set<net.Socket>();
const guest = net.createServer((socket) => {
  connections.add(socket);
  socket.on("close", () => connections.delete(socket));
  socket.on("error", () => socket.destroy());
  let head = "";
  socket.on("data", (bytes) => {
    head += bytes.toString("latin1");
    if (head.endsWith("\r\n\r\n")) answer(socket, head);
  });
});

beforeAll(async () => {
  edge = new EdgeUnderTest();
  edge.place({ host: ADDRESS });
  await new Promise<void>((resolve) => guest.listen(RUNTIME_PORT, ADDRESS, resolve));
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  for (const socket of connections) socket.destroy();
  guest.close();
});

const download = () => edge.fetch(RUNTIME_PORT, "/files?path=/a%20b&signature=v1_x");
const answering = (text: string) => {
  answer = (socket) => void socket.end(text, "latin1");
};
const gone = () =>
  new Promise<void>((resolve) => {
    for (const socket of connections) socket.once("close", () => resolve());
    if (connections.size === 0) resolve();
  });

describe("the client gets", () => {
  test.each([
    ["an empty body", "Content-Type: a/b\r\nContent-Length: 0\r\n\r\n", ""],
    ["nothing behind the announced length", "Content-Type: a/b\r\nContent-Length: 2\r\n\r\nhello", "he"],
    ["a chunked body", "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-T: 1\r\n\r\n", "hello"],
    ["a chunked body of nothing", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""],
  ])("%s", async (_name, rest, expected) => {
    answering(`HTTP/1.1 200 OK\r\nX-Own: 1\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n${rest}`);
    const response = await download();
    expect(response.status).toBe(200);
    expect(response.headers.get("x-own")).toBe("1");
    expect(response.headers.get("x-hop")).toBeNull();
    expect(response.headers.get("content-type")).toBe(rest.includes("a/b") ? "a/b" : null);
    expect(await response.text()).toBe(expected);
  });

  test("a chunked body that comes byte by byte", async () => {
    answer = async (socket) => {
      socket.setNoDelay(true);
      const text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n";
      for (const byte of text) await new Promise((resolve) => socket.write(byte, resolve));
      socket.end();
    };
    expect(await (await download()).text()).toBe("0123456789x");
  });

  test("64 MiB unchanged, counted and in chunks of odd sizes", async () => {
    const content = crypto.getRandomValues(new Uint8Array(65_521));
    const times = Math.ceil((64 * MIB) / content.length);
    const expected = new Bun.CryptoHasher("md5");
    for (let round = 0; round < times; round += 1) expected.update(content);
    const digest = expected.digest("hex");
    const send = (socket: net.Socket, head: string, piece: Buffer, end: string) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n${head}\r\n\r\n`);
      for (let round = 0; round < times; round += 1) socket.write(piece);
      socket.end(end);
    };
    answer = (socket) => send(socket, `Content-Length: ${times * content.length}`, Buffer.from(content), "");
    expect(await md5(await download())).toBe(digest);
    const halves = [content.subarray(0, 7), content.subarray(7)];
    const chunked = Buffer.concat(
      halves.flatMap((half) => [Buffer.from(`${half.length.toString(16)}\r\n`), half, Buffer.from("\r\n")]),
    );
    answer = (socket) => send(socket, "Transfer-Encoding: chunked", chunked, "0\r\n\r\n");
    expect(await md5(await download())).toBe(digest);
  });
});

describe("an end on one side reaches the other", () => {
  test.each([
    ["hangs up within a chunk", "5\r\nok", "end"],
    ["sends a chunk longer than announced", "2\r\nokay\r\n0\r\n\r\n", "stay"],
  ])("the guest %s: the client's body breaks", async (_name, body, then) => {
    answer = (socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n");
      socket.write(body, () => void (then === "end" && socket.end()));
    };
    const closed = download().then((response) => response.text());
    await expect(closed).rejects.toThrow();
    await gone();
  });

  test("the guest gives no length: closed port", async () => {
    answering("HTTP/1.1 200 OK\r\n\r\nokay");
    const response = await download();
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ port: RUNTIME_PORT, code: 502 });
  });
});

async function md5(response: Response): Promise<string> {
  const hasher = new Bun.CryptoHasher("md5");
  for await (const piece of response.body ?? []) hasher.update(piece);
  return hasher.digest("hex");
}
