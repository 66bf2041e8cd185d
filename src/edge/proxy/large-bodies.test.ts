/** Large bodies through the edge: complete, in little memory, and at the pace of the slower side. */
import { afterAll, expect, test } from "bun:test";
import { untilStill, untilTrue } from "../../base/testing/until.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { EdgeProcess, hostOf, RawService } from "../testing/edge-under-test.ts";

const MIB = 1024 * 1024;
const VOLUME_BYTES = 256 * MIB;
const GROWTH_MAX_BYTES = 32 * MIB;
const PIECE = Buffer.alloc(64 * 1024, "sandlot ");
/** Upper bound for the bytes that sockets and streams hold of a body that the receiver does not read. */
const HELD_MAX_BYTES = 32 * MIB;
const PIECES = VOLUME_BYTES / PIECE.length;

const edge = edgeOfFile();

function pieces(count: number): ReadableStream<Uint8Array> {
  let left = count;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (left === 0) controller.close();
        else controller.enqueue(new Uint8Array(PIECE));
        left -= 1;
      },
    },
    { highWaterMark: 0 },
  );
}

async function digest(stream: ReadableStream<Uint8Array> | null): Promise<string> {
  const hasher = new Bun.CryptoHasher("md5");
  for await (const piece of stream ?? pieces(0)) hasher.update(piece);
  return hasher.digest("hex");
}

const service = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  maxRequestBodySize: 2 * VOLUME_BYTES,
  fetch: async ({ method, body }) => new Response(method === "GET" ? pieces(PIECES) : await digest(body)),
});
afterAll(() => service.stop(true));

const expected = digest(pieces(PIECES));

// Guards against bodies that are gathered before they are sent.
test.each(["GET", "POST"])("256 MiB by %s arrive complete, in little memory", async (method) => {
  await using alone = await EdgeProcess.start();
  const before = await alone.peakBytes();
  const response = await fetch(`http://127.0.0.1:${alone.port}/`, {
    method,
    headers: { host: hostOf(service.port ?? 0) },
    ...(method === "POST" && { body: pieces(PIECES) }),
  });
  const arrived = method === "POST" ? await response.text() : await digest(response.body);
  expect(arrived).toBe(await expected);
  expect((await alone.peakBytes()) - before).toBeLessThan(GROWTH_MAX_BYTES);
});

// Guards against a stream that buffers without a limit, as does the next test.
test("a client that does not read blocks the service", async () => {
  let written = 0;
  await using flood = await RawService.start((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\n");
    const pump = () => {
      while (written < VOLUME_BYTES) {
        written += PIECE.length;
        if (!socket.write(PIECE)) return;
      }
    };
    socket.on("drain", pump);
    pump();
  });
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const client = await Bun.connect({
    hostname: "127.0.0.1",
    port: edge.port,
    socket: {
      data(socket) {
        socket.pause();
        resolve();
      },
    },
  });
  client.write(`GET / HTTP/1.1\r\nHost: ${hostOf(flood.port)}\r\n\r\n`);
  await begun;
  expect(await untilStill(() => written)).toBeLessThan(HELD_MAX_BYTES);
  client.terminate();
});

test.each(["a service that takes nothing", "the management API, while it looks a key up,"])(
  "%s blocks the client",
  async (who) => {
    const isManagement = who.includes("management");
    await using deaf = await RawService.start((socket) => void socket.pause());
    const lookedUp = Promise.withResolvers<Response>();
    edge.management = () => lookedUp.promise;
    let taken = 0;
    const body = pieces(PIECES).pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          taken += piece.length;
          controller.enqueue(piece);
        },
      }),
    );
    const leaving = new AbortController();
    const host = isManagement ? "127.0.0.1" : hostOf(deaf.port);
    const response = fetch(edge.url, { method: "POST", body, signal: leaving.signal, headers: { host } }).catch(
      (failure: Error) => failure.name,
    );
    await untilTrue(() => taken !== 0);
    expect(await untilStill(() => taken)).toBeLessThan(HELD_MAX_BYTES);
    leaving.abort();
    expect(await response).toBe("AbortError");
    lookedUp.resolve(new Response());
  },
);
