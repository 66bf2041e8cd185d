/** What windows of HTTP/2 allow, in both directions. The frames are the client's own: libraries keep to the rules. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { constants } from "node:http2";
import { until, untilStill } from "../../base/testing/until.ts";
import { HeaderLines } from "../../http1/header-lines.ts";
import { EDGE_HELD_MAX_BYTES, HeldBytes } from "../flow/held-bytes.ts";
import { EDGE_HTTP2_WINDOW_BYTES, EDGE_RESPONSE_WAITING_MAX_BYTES } from "../limits.ts";
import {
  DATA,
  END_STREAM,
  FrameClient,
  frame,
  INITIAL_WINDOW,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from "../testing/http2-frames.ts";
import { SELF_SIGNED } from "../testing/self-signed.ts";
import type { ClientRequest } from "./client-request.ts";
import { EdgeListener } from "./edge-listener.ts";

const MIB = 1024 * 1024;
const ANSWER_BYTES = 200_000;
const REQUEST = { ":method": "GET", ":path": "/", ":authority": "a.test" };
const WINDOW_MAX = 2 ** 31 - 1;

let front: EdgeListener;
let held: HeldBytes;
let handle: (request: ClientRequest) => void;
beforeAll(() => {
  front = new EdgeListener({ hostname: "127.0.0.1", port: 0, tls: SELF_SIGNED, handle: (request) => handle(request) });
});
afterAll(() => front.stop(true));

/** Bytes that encode their position, so that a lost or repeated byte is noticed. */
const content = (bytes: number) => Buffer.from(Uint8Array.from({ length: bytes }, (_, at) => at % 251));

function answerWith(...pieces: Buffer<ArrayBuffer>[]): void {
  held = new HeldBytes();
  handle = (request) => {
    request.chargeTo?.(held);
    const [first, ...others] = pieces.map((piece) => Buffer.from(piece));
    request.respond({ status: 200, statusText: "OK", headers: new HeaderLines() }, "follows", first);
    for (const piece of others) request.write(piece);
    request.end();
  };
}

function bodyOf(client: FrameClient, stream: number): Buffer {
  return Buffer.concat(
    client
      .of(stream)
      .filter(({ kind }) => kind === DATA)
      .map((one) => one.content),
  );
}

const hasEnded = (client: FrameClient, stream: number) =>
  client.of(stream).some(({ kind, flags }) => kind === DATA && (flags & END_STREAM) !== 0);

function setting(kind: number, value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUInt16BE(kind);
  bytes.writeUInt32BE(value, 2);
  return frame(SETTINGS, 0, 0, bytes);
}

test("a response is sent only as far as the window allows, counts as held, and arrives complete", async () => {
  answerWith(content(100), content(ANSWER_BYTES));
  using client = await FrameClient.connect(front.port);
  client.request(1, REQUEST);
  await untilStill(() => bodyOf(client, 1).length);
  expect(bodyOf(client, 1).length).toBe(INITIAL_WINDOW);
  expect(held.bytes).toBeGreaterThanOrEqual(ANSWER_BYTES + 100 - INITIAL_WINDOW);
  client.open(1, ANSWER_BYTES);
  await until("the answer ends", () => hasEnded(client, 1));
  expect(bodyOf(client, 1)).toEqual(Buffer.concat([content(100), content(ANSWER_BYTES)]));
  expect(held.bytes).toBe(0);
});

test("responses share the connection's window, and a blocked one does not delay others", async () => {
  answerWith(content(ANSWER_BYTES));
  using client = await FrameClient.connect(front.port);
  client.send(setting(constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0));
  for (const stream of [1, 3]) client.request(stream, REQUEST);
  client.open(3, ANSWER_BYTES);
  await until("the second answer ends", () => hasEnded(client, 3));
  expect(bodyOf(client, 1).length).toBe(0);
  client.send(setting(constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, ANSWER_BYTES));
  await untilStill(() => bodyOf(client, 1).length);
  expect(bodyOf(client, 1).length).toBe(INITIAL_WINDOW);
  client.open(1, ANSWER_BYTES);
  await until("the first answer ends", () => hasEnded(client, 1));
  expect(bodyOf(client, 1)).toEqual(content(ANSWER_BYTES));
});

test("nothing is held for a disconnected client", async () => {
  answerWith(content(EDGE_RESPONSE_WAITING_MAX_BYTES));
  using client = await FrameClient.connect(front.port);
  client.request(1, REQUEST);
  await until("it is held", () => held.bytes > 0);
  client.reset(1, constants.NGHTTP2_CANCEL);
  await until("nothing is held", () => held.bytes === 0);
  client.request(3, REQUEST);
  await until("it is held again", () => held.bytes > 0);
  client.socket.destroy();
  await until("nothing is held again", () => held.bytes === 0);
});

test("a window above the maximum ends the connection", async () => {
  answerWith(content(1));
  using client = await FrameClient.connect(front.port);
  const most = Buffer.alloc(4);
  most.writeUInt32BE(WINDOW_MAX);
  client.send(frame(WINDOW_UPDATE, 0, 0, most));
  await until("the connection is closed", () => client.socket.destroyed);
});

test("an initial window that makes a stream's window too large ends the connection", async () => {
  handle = () => undefined;
  using client = await FrameClient.connect(front.port);
  client.request(1, REQUEST);
  client.open(1, WINDOW_MAX - 2 * INITIAL_WINDOW);
  client.send(setting(constants.NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_MAX));
  await until("the connection is closed", () => client.socket.destroyed);
});

// The library counts DATA of closed streams, the edge that of others. Guards against steps of both that together exceed
// the window.
test("a client that respects the connection's window always gets window updates", async () => {
  handle = (request) => {
    if (request.target === "/refused")
      request.respond({ status: 413, statusText: "", headers: new HeaderLines() }, "none");
  };
  using client = await FrameClient.connect(front.port);
  await until("the window is opened", () => client.windowOf(0) === EDGE_HTTP2_WINDOW_BYTES);
  client.request(1, { ...REQUEST, ":method": "POST", ":path": "/refused" }, 0);
  await until("it is refused", () => client.of(1).some(({ kind }) => kind === RST_STREAM));
  const pieces = EDGE_HTTP2_WINDOW_BYTES / 16_384;
  for (let left = pieces / 2 - 1; left > 0; left--) client.send(frame(DATA, 0, 1, content(16_384)));
  for (const stream of [3, 5]) client.request(stream, { ...REQUEST, ":method": "POST" }, 0);
  for (let left = pieces / 2; left > 0; left--) client.send(frame(DATA, 0, left % 2 === 0 ? 3 : 5, content(16_384)));
  await until("the window is opened again", () => client.windowOf(0) > EDGE_HTTP2_WINDOW_BYTES);
});

test("a body that exceeds its window is reset", async () => {
  handle = () => undefined;
  using client = await FrameClient.connect(front.port);
  client.request(1, { ...REQUEST, ":method": "POST" }, 0);
  const isReset = () => client.of(1).some(({ kind }) => kind === RST_STREAM);
  for (let left = EDGE_HTTP2_WINDOW_BYTES; left > 0; left -= 16_384) client.send(frame(DATA, 0, 1, content(16_384)));
  await until("the connection's window is opened", () => client.windowOf(0) > EDGE_HTTP2_WINDOW_BYTES);
  expect(isReset()).toBe(false);
  client.send(frame(DATA, 0, 1, content(1)));
  await until("it is reset", isReset);
  const reset = client.of(1).find(({ kind }) => kind === RST_STREAM);
  expect(reset?.content.readUInt32BE(0)).toBe(constants.NGHTTP2_FLOW_CONTROL_ERROR);
});

test("a body is paused when its sandbox has used its share of memory, and continues later", async () => {
  const [sent, others] = [6 * MIB, EDGE_HELD_MAX_BYTES / 2];
  held = new HeldBytes();
  held.add(others);
  handle = (request) => request.chargeTo?.(held);
  using client = await FrameClient.connect(front.port);
  client.request(1, { ...REQUEST, ":method": "POST" }, 0);
  for (let left = sent; left > 0; left -= 16_384) client.send(frame(DATA, 0, 1, content(16_384)));
  await until("it is held", () => held.bytes > others);
  await untilStill(() => held.bytes);
  expect(held.bytes - others).toBeLessThan(2 * MIB);
  held.add(-others);
  await until("the rest is read", () => held.bytes >= sent);
  client.socket.destroy();
  await until("nothing is held", () => held.bytes === 0);
});
