/** Limits of concurrent requests, streams and WebSockets per sandbox and per team; an ended one makes room. */
import { describe, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import { EdgeUnderTest, hostOf, RawService, SANDBOX, UPGRADE } from "../testing/edge-under-test.ts";
import { serve } from "../testing/service.ts";

const under = (limits: { perSandbox: number; perTeam: number }) => new EdgeUnderTest({ limits });
const PLAIN = "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/** A service that begins its responses and does not end them; accepts WebSockets. */
const holding = () =>
  serve((request, server) => {
    if (server.upgrade(request)) return undefined;
    return new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(3)) }));
  });

/** A stream that is open, and a way to leave it. */
type Held = () => void;
const WAYS: Record<string, (edge: EdgeUnderTest, port: number) => Promise<Held>> = {
  "by fetch": async (edge, port) => {
    const leaving = new AbortController();
    const response = await edge.fetch(port, "/", { signal: leaving.signal });
    expect(response.status).toBe(200);
    // Refers to the response: the collector would end the request of one that is unused.
    return () => leaving.abort(response.status);
  },
  "by a connection of our own": async (edge, port) => {
    const begun = Promise.withResolvers<void>();
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: edge.port,
      socket: { data: () => begun.resolve(), error: () => undefined },
    });
    socket.write(`GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\n\r\n`);
    await begun.promise;
    return () => socket.terminate();
  },
  "as a WebSocket": async (edge, port) => {
    const socket = edge.websocket(port);
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    return () => socket.close();
  },
};

describe.each(Object.entries(WAYS))("%s", (_, open) => {
  test("one above the limit of a sandbox is rejected, and one more passes when one ends", async () => {
    await using edge = under({ perSandbox: 3, perTeam: 100 });
    await using service = holding();
    const held = [await open(edge, service.port), await open(edge, service.port), await open(edge, service.port)];
    const refused = await edge.fetch(service.port, "/");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, null]);
    expect(await refused.json()).toEqual({
      sandboxId: SANDBOX,
      message: "The sandbox has 3 open requests and streams, its limit; close some of them",
      code: 429,
      connectionLimit: 3,
    });
    held.shift()?.();
    await using quick = await RawService.start((socket) => void socket.end(PLAIN));
    await untilTrue(async () => (await edge.fetch(quick.port, "/")).status === 200);
    for (const leave of held) leave();
  });
});

test("one above the limit of a team is rejected", async () => {
  await using edge = under({ perSandbox: 100, perTeam: 1 });
  await using service = holding();
  const held = await WAYS["by fetch"]?.(edge, service.port);
  const refused = await edge.fetch(service.port, "/");
  expect([refused.status, (await refused.json()).message]).toEqual([
    429,
    "The sandbox's team has 1 open requests and streams, its limit; close some of them",
  ]);
  expect(refused.headers.has("retry-after")).toBe(false);
  held?.();
});

/** However an exchange ends, it ends: with one place there is room for the next. */
describe("a place is free again after", () => {
  const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n";
  const long = "x".repeat(300_000);
  const answers: Record<string, string> = {
    "a short answer": PLAIN,
    "a long one": `${HEAD}Content-Length: ${long.length}\r\n\r\n${long}`,
    "one in chunks": `${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
    "one without a type": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "one without a body": "HTTP/1.1 204 No Content\r\n\r\n",
    "one that is cut off": `${HEAD}Content-Length: 1000\r\n\r\nok`,
    "an invalid response": "nonsense\r\n\r\n",
  };
  const requests: Record<string, (edge: EdgeUnderTest, port: number) => Promise<unknown>> = {
    "by fetch": async (edge, port) => (await edge.fetch(port, "/")).bytes(),
    "by fetch, HEAD": (edge, port) => edge.fetch(port, "/", { method: "HEAD" }),
    "by a connection of our own": (edge, port) =>
      edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\nConnection: close\r\n\r\n`),
    "declined as a WebSocket": (edge, port) =>
      edge.raw(
        `GET / HTTP/1.1\r\nHost: ${hostOf(port)}\r\n${UPGRADE.replace("Upgrade", "Upgrade, close")}\r\n`,
        (text) => text.includes("\r\n\r\n"),
      ),
  };
  const cases = Object.entries(answers).flatMap(([answer, text]) =>
    Object.entries(requests).map(([way, send]) => [answer, way, text, send] as const),
  );

  test.each(cases)("%s, requested by %s", async (_answer, _way, text, send) => {
    await using edge = under({ perSandbox: 1, perTeam: 1 });
    await using service = await RawService.start((socket) => void socket.end(text));
    await using quick = await RawService.start((socket) => void socket.end(PLAIN));
    await send(edge, service.port).catch(() => undefined);
    await untilTrue(async () => (await edge.fetch(quick.port, "/")).status === 200);
  });

  test("a request to a closed port", async () => {
    await using edge = under({ perSandbox: 1, perTeam: 1 });
    await using quick = await RawService.start((socket) => void socket.end(PLAIN));
    expect((await edge.fetch(1, "/")).status).toBe(502);
    expect((await edge.fetch(quick.port, "/")).status).toBe(200);
  });
});
