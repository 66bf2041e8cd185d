/** Responses and bodies that break off over HTTP/2, observed as raw frames: a library would interpret them. */
import { expect, test } from "bun:test";
import { constants } from "node:http2";
import type net from "node:net";
import { until } from "../../base/testing/until.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService } from "../testing/edge-under-test.ts";
import {
  DATA,
  END_STREAM,
  type Frame,
  FrameClient,
  frame,
  GOAWAY,
  HEADERS,
  RST_STREAM,
  WINDOW_UPDATE,
} from "../testing/http2-frames.ts";

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR } = constants;
/** More than a client takes that opens no window. */
const LONG_BYTES = 200_000;

// One at once: a broken exchange that kept its place would have the next rejected.
const edge = edgeOfFile({ limits: { perSandbox: 1, perTeam: 1 } });

const get = (port: number) => ({ ":method": "GET", ":path": "/", ":authority": hostOf(port) });
const post = (port: number) => ({ ":method": "POST", ":path": "/", ":authority": hostOf(port) });

/** How the stream ended: the code with which it was reset, or "clean". */
async function endOf(client: FrameClient, stream: number): Promise<number | "clean"> {
  const isLast = ({ kind, flags }: Frame) =>
    kind === RST_STREAM || (kind !== WINDOW_UPDATE && (flags & END_STREAM) !== 0);
  await until("the stream ends", () => client.of(stream).some(isLast));
  const last = client.of(stream).find(isLast);
  return last?.kind === RST_STREAM ? last.content.readUInt32BE(0) : "clean";
}

async function untilBegun(client: FrameClient, stream: number): Promise<void> {
  await until("the answer begins", () => client.of(stream).some(({ kind }) => kind === DATA));
}

const ANSWERS = {
  "between two chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
  "within a chunk": "Transfer-Encoding: chunked\r\n\r\n50\r\nhello",
  "short of its Content-Length": "Content-Length: 50\r\n\r\nhello",
  "with more than the client takes": `Content-Length: ${2 * LONG_BYTES}\r\n\r\n${"a".repeat(LONG_BYTES)}`,
};
const ENDS: Record<string, (socket: net.Socket | undefined) => void> = {
  "the service closes": (socket) => socket?.end(),
  "the service dies": (socket) => socket?.resetAndDestroy(),
  "the sandbox is killed": () => {
    edge.end();
    edge.place();
  },
};
const BROKEN = Object.keys(ANSWERS).flatMap((where) => Object.keys(ENDS).map((how) => [where, how] as const));

test.each(BROKEN)("a response that breaks %s because %s is reset", async (where, how) => {
  const head = `HTTP/1.1 200 OK\r\n${ANSWERS[where as keyof typeof ANSWERS]}`;
  await using service = await RawService.start((socket) => void socket.write(head));
  using client = await FrameClient.connect(edge.tlsPort);
  for (const stream of [1, 3]) {
    client.request(stream, get(service.port));
    await untilBegun(client, stream);
    ENDS[how]?.(service.sockets.at(-1));
    // It is read to where it breaks once the client takes it.
    client.open(stream, LONG_BYTES);
    expect(await endOf(client, stream)).toBe(NGHTTP2_INTERNAL_ERROR);
    expect(client.of(stream)[0]?.kind).toBe(HEADERS);
  }
});

test("a response without a length ends with its connection, and is reset if that breaks", async () => {
  await using service = await RawService.start((socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\nhello"));
  using client = await FrameClient.connect(edge.tlsPort);
  const ends = [];
  for (const [stream, how] of [
    [1, "the service closes"],
    [3, "the service dies"],
    [5, "the sandbox is killed"],
  ] as const) {
    client.request(stream, get(service.port));
    await untilBegun(client, stream);
    ENDS[how]?.(service.sockets.at(-1));
    ends.push(await endOf(client, stream));
  }
  expect(ends).toEqual(["clean", NGHTTP2_INTERNAL_ERROR, NGHTTP2_INTERNAL_ERROR]);
});

test("a malformed request is reset without a response head", async () => {
  using client = await FrameClient.connect(edge.tlsPort);
  client.request(1, { ...post(80), "transfer-encoding": "chunked" });
  expect(await endOf(client, 1)).toBe(NGHTTP2_PROTOCOL_ERROR);
  expect(client.of(1).map(({ kind }) => kind)).toEqual([RST_STREAM]);
});

const LEAVING: Record<string, (client: FrameClient) => void> = {
  "resets it": (client) => client.reset(1, NGHTTP2_CANCEL),
  "resets it without an error": (client) => client.reset(1, NGHTTP2_NO_ERROR),
  "resets it with another error": (client) => client.reset(1, NGHTTP2_INTERNAL_ERROR),
  "closes its connection": (client) => void client.socket.end(),
  dies: (client) => void client.socket.destroy(),
  "says that it leaves, and closes": (client) => {
    client.send(frame(GOAWAY, 0, 0, Buffer.alloc(8)));
    client.socket.end();
  },
  "sends what is no HTTP/2": (client) => client.send(frame(DATA, 0, 0, Buffer.alloc(8))),
};
const LEFT = Object.keys(LEAVING).flatMap((how) =>
  [{}, { "content-length": "40000" }].map((length) => [how, length] as const),
);

test.each(LEFT)("a body whose client %s is incomplete for the service: %j", async (how, length) => {
  await using service = await RawService.start(() => undefined);
  using client = await FrameClient.connect(edge.tlsPort);
  client.request(1, { ...post(service.port), ...length }, 0);
  client.send(frame(DATA, 0, 1, Buffer.alloc(10_000, "a")));
  await until("the service has it", () => service.received[0]?.endsWith("a".repeat(10_000)) === true);
  LEAVING[how]?.(client);
  await until("its connection closes", () => service.sockets[0]?.destroyed === true);
  expect(service.received[0]).toEndWith("a");
});
