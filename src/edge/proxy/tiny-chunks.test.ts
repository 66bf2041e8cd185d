/** Bodies in tiny chunks arrive complete in both directions, and the edge stops reading a refused one. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { once } from "node:events";
import net from "node:net";
import { until } from "../../base/testing/until.ts";
import { EDGE_CHUNKS_AT_ONCE_MAX } from "../limits.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf } from "../testing/edge-under-test.ts";
import { serve } from "../testing/service.ts";

const COUNT = 20 * EDGE_CHUNKS_AT_ONCE_MAX + 7;
const CONTENT = Buffer.from(Array.from({ length: COUNT }, (_, at) => 0x61 + (at % 26)));
const CHUNKS = Buffer.from(
  `${Array.from(CONTENT, (byte) => `1\r\n${String.fromCharCode(byte)}\r\n`).join("")}0\r\n\r\n`,
);

const edge = edgeOfFile();

/** Echoes the data in chunks of one byte. */
const echo = net.createServer((socket) => {
  socket.on("error", () => undefined);
  socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
  let got = "";
  socket.on("data", (bytes) => {
    got += bytes.toString("latin1");
    if (got.startsWith("GET") || got.endsWith("\r\n0\r\n\r\n")) socket.end(CHUNKS);
  });
});
beforeAll(() => new Promise<void>((listening) => void echo.listen(0, "127.0.0.1", listening)));
afterAll(() => void echo.close());
const port = () => (echo.address() as net.AddressInfo).port;

test("a response of a service is complete", async () => {
  const response = await edge.fetch(port(), "/");
  expect(Buffer.from(await response.arrayBuffer()).equals(CONTENT)).toBe(true);
});

test("a request's body is complete, and the next request follows", async () => {
  let body = "";
  await using service = serve(async (request) => {
    body = await request.text();
    return new Response("got it");
  });
  const head = (method: string) => `${method} / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n`;
  const request = `${head("POST")}Transfer-Encoding: chunked\r\n\r\n${CHUNKS.toString("latin1")}`;
  const received = await edge.raw(`${request}${head("GET")}Connection: close\r\n\r\n`);
  expect(received.match(/HTTP\/1\.1 200 OK/g)?.length).toBe(2);
  expect(body).toBe("");
  const again = await edge.raw(`${request.replace("\r\n", "\r\nConnection: close\r\n")}`);
  expect(again).toEndWith("got it");
  expect(body).toBe(CONTENT.toString("latin1"));
});

test("the body of a rejected request is not read further, and the response arrives", async () => {
  const client = net.connect({ port: edge.port, host: "127.0.0.1", allowHalfOpen: true });
  client.on("error", () => undefined);
  let received = "";
  client.on("data", (bytes) => {
    received += bytes.toString("latin1");
  });
  await once(client, "connect");
  client.write(`POST / HTTP/1.1\r\nHost: 3000-${"x".repeat(20)}.example.com\r\nTransfer-Encoding: chunked\r\n\r\n`);
  await until("it is refused", () => received.includes("\r\n\r\n"));
  expect(received).toStartWith("HTTP/1.1 502 ");
  const flood = Buffer.from("1\r\na\r\n".repeat(200_000));
  let isTaken = true;
  let sent = 0;
  while (isTaken && sent < 100) {
    isTaken = await Promise.race([
      new Promise<boolean>((taken) => client.write(flood, () => taken(true))),
      Bun.sleep(1000).then(() => false),
    ]);
    sent += 1;
  }
  expect(isTaken).toBe(false);
  client.destroy();
});
