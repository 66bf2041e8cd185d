/** Clients that send too much, too slowly or nothing, at a listener configured like the server's. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonLog } from "../../base/log.ts";
import { freePort } from "../../base/testing/free-port.ts";
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES } from "../../edge/limits.ts";
import { loadConfig } from "../settings/config.ts";
import { OwnFronts } from "../testing/local-fronts.ts";
import { Listeners } from "./listeners.ts";

const TRICKLE_MS = 500;
const IDLE_SECONDS = 4;
const HEAD = "POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n";
const folder = mkdtempSync(join(tmpdir(), "sandlot-slow-"));
const port = freePort();
let listeners: Listeners;

beforeAll(async () => {
  const config = loadConfig({ SANDLOT_DATA: folder, SANDLOT_LISTEN: `127.0.0.1:${port}` });
  listeners = await Listeners.open(config, {
    fronts: new OwnFronts({
      management: async (request) =>
        request.url.endsWith("/endless") ? endless() : new Response(`${(await request.bytes()).length} bytes`),
      idleSeconds: IDLE_SECONDS,
    }),
    idleSeconds: IDLE_SECONDS,
    log: jsonLog(() => undefined),
  });
});
afterAll(async () => {
  await listeners.stop(true);
  rmSync(folder, { recursive: true });
});

const givenUp = Promise.withResolvers<void>();

/** An endless response; resolves `givenUp` when the server cancels it. */
function endless(): Response {
  const pull = (controller: ReadableStreamDefaultController) => controller.enqueue(new Uint8Array(1024 * 1024));
  return new Response(new ReadableStream({ pull, cancel: () => givenUp.resolve() }, { highWaterMark: 0 }));
}

/** Sends a request and reads nothing of the response. */
async function ignore(): Promise<void> {
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: { data: (socket) => void socket.pause(), error: () => undefined },
  });
  socket.write("GET /endless HTTP/1.1\r\nHost: here\r\n\r\n");
  await givenUp.promise;
  socket.terminate();
}

/** The whole response until the connection is closed; sends the pieces from `more` one by one. */
async function answer(text: string, more?: (at: number) => string): Promise<string> {
  let [received, isOpen] = ["", true];
  const closed = Promise.withResolvers<void>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data(_, bytes) {
        received += bytes.toString();
      },
      error: () => undefined,
      close() {
        isOpen = false;
        closed.resolve();
      },
    },
  });
  socket.write(text);
  for (let at = 0; isOpen && more !== undefined; at++) {
    await Promise.race([closed.promise, Bun.sleep(TRICKLE_MS)]);
    if (isOpen) socket.write(more(at));
  }
  await closed.promise;
  return received;
}

const headOf = (bytes: number) => `${HEAD}X: ${"x".repeat(bytes - HEAD.length - "X: \r\n\r\n".length)}\r\n\r\n`;
const headers = (count: number) =>
  `${HEAD}${Array.from({ length: count - 2 }, (_, at) => `X-${at}: a\r\n`).join("")}\r\n`;

test("a head that is too long, or has too many headers, is 431", async () => {
  for (const most of [headOf(EDGE_REQUEST_HEAD_MAX_BYTES - 16), headers(EDGE_REQUEST_HEAD_MAX_LINES)])
    expect(await answer(most)).toStartWith("HTTP/1.1 200 ");
  const long = `GET /${"u".repeat(EDGE_REQUEST_HEAD_MAX_BYTES)} HTTP/1.1\r\nHost: here\r\n\r\n`;
  for (const more of [headOf(EDGE_REQUEST_HEAD_MAX_BYTES + 16), long, headers(EDGE_REQUEST_HEAD_MAX_LINES + 1)]) {
    expect(await answer(more)).toStartWith("HTTP/1.1 431 ");
  }
});

test("a connection without a complete head in time is closed", async () => {
  const received = await Promise.all([
    answer(""),
    answer("POST / HT"),
    answer(HEAD, (at) => `X-${at}: a\r\n`),
    answer(`${HEAD}X: `, () => "a"),
  ]);
  expect(received).toEqual(["", "", "", ""]);
});

test("slow bodies, unread responses and silent connections are closed", async () => {
  const begun = `${HEAD}Content-Length: 1000\r\n\r\n`;
  const kept = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  const ignored = ignore();
  const received = await Promise.all([answer(begun), answer(begun, () => "a"), answer(kept)]);
  await ignored;
  expect(received).toEqual(["", "", expect.stringContaining("0 bytes")]);
});
