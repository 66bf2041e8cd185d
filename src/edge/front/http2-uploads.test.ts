/** Bodies over HTTP/2: complete, as fast as windows allow, and in bounded memory when a service does not read. */
import { expect, test } from "bun:test";
import { until, untilStill, untilTrue } from "../../base/testing/until.ts";
import type { Wake } from "../../contract/internal/directory.ts";
import { EDGE_HTTP2_WINDOW_BYTES } from "../limits.ts";
import { EdgeUnderTest, hostOf } from "../testing/edge-under-test.ts";
import { DATA, END_STREAM, FrameClient, frame, INITIAL_WINDOW } from "../testing/http2-frames.ts";
import { serve } from "../testing/service.ts";
import {
  EDGE_HTTP2_FRAMES_AT_ONCE_MAX,
  EDGE_HTTP2_UNREAD_MAX_BYTES,
  EDGE_HTTP2_UNREAD_MS,
  Http2Connection,
} from "./http2-connection.ts";

const MIB = 1024 * 1024;
const PIECE = Buffer.alloc(16 * 1024);
const BODY_BYTES = 2 * MIB;

test("the connection's window is opened for large bodies", async () => {
  await using edge = new EdgeUnderTest();
  using client = await FrameClient.connect(edge.tlsPort);
  await until("the window is opened", () => client.windowOf(0) > INITIAL_WINDOW);
  expect(client.windowOf(0)).toBe(EDGE_HTTP2_WINDOW_BYTES);
});

// Without a bound, all of them arrive: 128 MiB. The rest is the connection's own window.
test("unread bodies of one connection are not buffered, and arrive complete later", async () => {
  await using edge = new EdgeUnderTest();
  const woken = Promise.withResolvers<void>();
  edge.end();
  edge.wake = async (): Promise<Wake> => {
    await woken.promise;
    edge.place();
    return { woken: true };
  };
  await using service = serve(async (request) => new Response(String((await request.bytes()).length)));
  using client = await FrameClient.connect(edge.tlsPort);
  const streams = Array.from({ length: 64 }, (_, nth) => 2 * nth + 1);
  let sent = 0;
  const sending = (async () => {
    for (const stream of streams) {
      client.request(stream, { ":method": "POST", ":path": "/", ":authority": hostOf(service.port) }, 0);
      for (let left = BODY_BYTES; left > 0; left -= PIECE.length) {
        await untilTrue(() => client.windowOf(0) >= sent + PIECE.length);
        client.send(frame(DATA, left === PIECE.length ? END_STREAM : 0, stream, PIECE));
        sent += PIECE.length;
      }
    }
  })();
  await untilStill(() => sent);
  expect(sent).toBeLessThan(EDGE_HTTP2_UNREAD_MAX_BYTES + 2 * EDGE_HTTP2_WINDOW_BYTES);
  woken.resolve();
  await sending;
  const answerOf = (stream: number) =>
    client
      .of(stream)
      .find(({ kind }) => kind === DATA)
      ?.content.toString();
  await until("all are answered", () => streams.every((stream) => answerOf(stream) !== undefined));
  expect(new Set(streams.map(answerOf))).toEqual(new Set([String(BODY_BYTES)]));
});

// Each frame costs some microseconds, whatever its size: 40 000 in one read delay all others by half a second.
test("a body in tiny frames arrives complete and does not block the event loop", async () => {
  await using edge = new EdgeUnderTest();
  const content = Buffer.from(Array.from({ length: 200 * EDGE_HTTP2_FRAMES_AT_ONCE_MAX }, (_, at) => 0x61 + (at % 26)));
  let turns = 0;
  await using service = serve(
    async (request) => new Response((await request.text()) === content.toString() ? "whole" : "broken"),
  );
  using client = await FrameClient.connect(edge.tlsPort);
  const frames = Array.from(content, (byte) => frame(DATA, 0, 1, Buffer.from([byte])));
  client.request(1, { ":method": "POST", ":path": "/", ":authority": hostOf(service.port) }, 0);
  client.send(Buffer.concat([...frames, frame(DATA, END_STREAM, 1)]));
  const isAnswered = () => client.of(1).some(({ kind }) => kind === DATA);
  while (!isAnswered()) {
    await new Promise(setImmediate);
    turns += 1;
  }
  expect(
    client
      .of(1)
      .find(({ kind }) => kind === DATA)
      ?.content.toString(),
  ).toBe("whole");
  expect(turns).toBeGreaterThan(200);
});

test("bodies that no service reads for long are ended, the largest first", () => {
  let isRead = true;
  const socket = {
    setKeepAlive: () => true,
    pause: () => {
      isRead = false;
    },
    resume: () => {
      isRead = true;
    },
    terminate: () => undefined,
  };
  const connection = new Http2Connection(socket as unknown as Bun.Socket);
  const refused: number[] = [];
  for (const mebibytes of [2, 9, 1, 6]) {
    const request = {
      id: mebibytes,
      window: 0,
      isSpent: false,
      acceptData: () => true,
      receiveData: () => undefined,
      bodyEnded: () => true,
      flush: () => undefined,
      unreadBytes: mebibytes * MIB,
      refuseBody() {
        refused.push(mebibytes);
        connection.requestOver(request);
      },
    };
    connection.requestBegun(request);
  }
  connection.received(Buffer.from("more"));
  expect(isRead).toBe(false);
  connection.checkStalled(0);
  connection.checkStalled(EDGE_HTTP2_UNREAD_MS - 1);
  expect(refused).toEqual([]);
  connection.bodyTaken();
  connection.checkStalled(EDGE_HTTP2_UNREAD_MS);
  expect([refused, isRead]).toEqual([[], false]);
  connection.checkStalled(2 * EDGE_HTTP2_UNREAD_MS);
  expect([refused, isRead]).toEqual([[9, 6], true]);
});
