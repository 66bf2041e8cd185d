/** Requests to a temporarily unreachable sandbox: they wait, and are then served, rejected or cut off. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import type { Wake, WakeRefusal, WakeRequest } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { closedPort, closing, EdgeUnderTest, next, RawService, SANDBOX } from "../testing/edge-under-test.ts";
import { serve, upgrading } from "../testing/service.ts";
import { SandboxRun } from "./route-table.ts";

let edge: EdgeUnderTest;
let requests: WakeRequest[];
let woken: PromiseWithResolvers<void>;
beforeEach(() => {
  edge = new EdgeUnderTest();
  edge.end();
  requests = [];
  woken = Promise.withResolvers<void>();
  edge.wake = async (_id, request): Promise<Wake> => {
    requests.push(request);
    await woken.promise;
    edge.place();
    return { woken: true };
  };
});
afterEach(() => edge[Symbol.asyncDispose]());

async function untilAsked(times = 1): Promise<void> {
  await untilTrue(() => requests.length >= times);
}

describe("a request to a paused sandbox", () => {
  test("waits until the sandbox is woken and is then served with its complete body", async () => {
    await using service = serve(async (request) => new Response(await request.bytes()));
    const body = crypto.getRandomValues(new Uint8Array(64 * 1024));
    const long = new Uint8Array(5 * 1024 * 1024).fill(7);
    const short = edge.fetch(service.port, "/", { method: "POST", body });
    const big = edge.fetch(service.port, "/", { method: "POST", body: long });
    await untilAsked(2);
    woken.resolve();
    expect(await (await short).bytes()).toEqual(body);
    expect((await (await big).bytes()).length).toBe(long.length);
  });

  test("may stream its body while it waits", async () => {
    await using service = serve(async (request) => new Response(await request.text()));
    const halves = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        controller.enqueue(Buffer.from("before "));
        await halves.promise;
        controller.enqueue(Buffer.from("after"));
        controller.close();
      },
    });
    const response = edge.fetch(service.port, "/", { method: "POST", body });
    await untilAsked();
    halves.resolve();
    woken.resolve();
    expect(await (await response).text()).toBe("before after");
  });

  test("passes its port and its token to the resume", async () => {
    woken.resolve();
    await using service = serve(() => new Response("ok"));
    await edge.fetch(service.port, "/", { headers: { "X-Access-Token": "abc" } });
    expect(requests).toMatchObject([{ port: service.port, accessToken: "abc", trafficToken: null, mayWake: true }]);
  });

  test.each([
    ["GET", RUNTIME_PORT, "/health", false],
    ["GET", RUNTIME_PORT, "/health?x=1", false],
    ["GET", RUNTIME_PORT, "/healthy", true],
    ["GET", RUNTIME_PORT, "/metrics", true],
    ["POST", RUNTIME_PORT, "/health", true],
    ["GET", 3000, "/health", true],
  ])("%s of port %p, %s: may wake the sandbox is %p", async (method, port, path, mayWake) => {
    edge.wake = async (_id, request) => {
      requests.push(request);
      return { refused: "not-found" };
    };
    expect((await edge.fetch(port, path, { method })).status).toBe(502);
    expect(requests).toMatchObject([{ port, accessToken: null, trafficToken: null, mayWake }]);
  });

  test("to a port without a listener is a closed port after the resume", async () => {
    woken.resolve();
    const port = await closedPort();
    const response = await edge.fetch(port, "/");
    expect([response.status, await response.json()]).toEqual([502, expect.objectContaining({ port, code: 502 })]);
    expect(requests).toHaveLength(1);
  });

  test("does not stop the wake when its client disconnects", async () => {
    await using service = serve(() => new Response("ok"));
    const leaving = new AbortController();
    const left = edge.fetch(service.port, "/", { signal: leaving.signal }).catch((failure: Error) => failure.name);
    await untilAsked();
    leaving.abort();
    expect(await left).toBe("AbortError");
    woken.resolve();
    expect((await edge.fetch(service.port, "/")).status).toBe(200);
  });

  test("for a WebSocket wakes the sandbox, too", async () => {
    await using service = serve(upgrading, { message: (socket, message) => void socket.send(message) });
    const socket = edge.websocket(service.port);
    await untilAsked();
    woken.resolve();
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const answer = next(socket);
    socket.send("hello");
    expect(await answer).toBe("hello");
    socket.close();
  });

  test("wakes a sandbox again that is paused before the request reached it", async () => {
    const port = await closedPort();
    edge.place();
    const response = edge.fetch(port, "/", { method: "POST", body: "kept" });
    await untilTrue(() => edge.forwardsAsked >= 1);
    edge.hide();
    await untilAsked();
    await using _service = serve(async (request) => new Response(await request.text()), { port });
    woken.resolve();
    expect(await (await response).text()).toBe("kept");
  });

  test("wakes a sandbox that is paused while the connection to it is made", async () => {
    // Without a TLS handshake, the connection is not made.
    await using silent = await RawService.start(() => undefined);
    edge.access = { ...edge.access, httpsPorts: [silent.port] };
    edge.place();
    const answered = edge.fetch(silent.port, "/", { method: "POST", body: "kept" });
    await untilTrue(() => silent.sockets.length === 1);
    edge.end();
    await untilAsked();
    const { port } = silent;
    await silent[Symbol.asyncDispose]();
    edge.access = { ...edge.access, httpsPorts: [] };
    await using _service = serve(async (request) => new Response(await request.text()), { port });
    woken.resolve();
    expect(await (await answered).text()).toBe("kept");
    expect(requests).toHaveLength(1);
  });
});

describe("a refusal to wake", () => {
  const refusals: [WakeRefusal, number, string, string][] = [
    ["not-found", 502, "The sandbox was not found", "Sandbox Not Found"],
    ["forbidden", 403, "credentials", "Unable to Resume Sandbox"],
    ["in-transition", 409, "still being paused", "Sandbox Still Transitioning"],
    ["limit-reached", 429, "limit", "Sandbox Limit Reached"],
    ["unavailable", 503, "just now", "Unable to Resume Sandbox Now"],
  ];

  test.each(refusals)("%s is a %p", async (refused, status, words, title) => {
    edge.wake = async () => ({ refused });
    const response = await edge.fetch(RUNTIME_PORT, "/health");
    expect(response.status).toBe(status);
    const body = (await response.json()) as Record<string, unknown>;
    expect(Object.keys(body)).toEqual(["sandboxId", "message", "code"]);
    expect(body).toEqual({ sandboxId: SANDBOX, message: expect.stringContaining(words), code: status });
    const page = await edge.fetch(3000, "/", {
      headers: { "User-Agent": "Mozilla/5.0", "Sec-Fetch-Mode": "navigate" },
    });
    expect([page.status, page.headers.get("content-type")]).toEqual([status, "text/html; charset=utf-8"]);
    expect(await page.text()).toContain(`<title>${title}</title>`);
  });

  test("is retried only a few times", async () => {
    // Each wake succeeds, but the sandbox is never found again and nothing listens on its port.
    edge.wake = async (_id, request) => {
      requests.push(request);
      return { woken: true };
    };
    expect((await edge.fetch(await closedPort(), "/")).status).toBe(409);
    expect(requests.length).toBeLessThanOrEqual(4);
  });
});

describe("when the sandbox is paused or ends", () => {
  beforeEach(() => edge.place());

  test("a streaming response breaks at the client", async () => {
    await using service = await RawService.start((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    });
    const reader = (await edge.fetch(service.port, "/")).body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("first");
    edge.end();
    await expect(reader?.read()).rejects.toThrow();
  });

  test("a request that was sent and has no response yet is told so, and is not sent again", async () => {
    const begun = Promise.withResolvers<void>();
    await using service = await RawService.start(() => begun.resolve());
    const answered = edge.fetch(service.port, "/");
    await begun.promise;
    edge.end();
    const response = await answered;
    expect([response.status, await response.json()]).toEqual([
      502,
      { sandboxId: SANDBOX, message: "The sandbox was paused or ended before it responded", code: 502 },
    ]);
    expect(requests).toEqual([]);
  });

  test.each([true, false])("the same holds if the connection ends before the edge knows it: %p", async (isHidden) => {
    const begun = Promise.withResolvers<void>();
    await using service = await RawService.start(() => begun.resolve());
    edge.wake = async (_id, request) => {
      requests.push(request);
      return { refused: "not-found" };
    };
    const answered = edge.fetch(service.port, "/");
    await begun.promise;
    if (isHidden) edge.hide();
    service.sockets[0]?.destroy();
    expect(await (await answered).json()).toMatchObject({ message: expect.stringContaining("was paused or ended") });
    expect(requests.map(({ mayWake }) => mayWake)).toEqual(isHidden ? [] : [false]);
  });

  test("a request whose body is still being sent ends, too", async () => {
    const begun = Promise.withResolvers<void>();
    await using service = await RawService.start(() => begun.resolve());
    const body = new ReadableStream<Uint8Array>(
      { pull: (controller) => controller.enqueue(Buffer.from("more")) },
      {
        highWaterMark: 1,
      },
    );
    const answered = edge.fetch(service.port, "/", { method: "POST", body }).then(
      ({ status }) => status,
      () => "broken",
    );
    await begun.promise;
    edge.end();
    expect([502, "broken"]).toContain(await answered);
  });

  test("a WebSocket is cut", async () => {
    await using service = serve(upgrading);
    const socket = edge.websocket(service.port);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const closed = closing(socket);
    edge.end();
    expect(await closed).toStartWith("1006");
  });

  test("a run drops a connection once its exchange is over", async () => {
    await using service = serve(upgrading);
    const { connections } = edge.find(SANDBOX)?.run ?? new SandboxRun();
    for (let nth = 0; nth < 5; nth++) {
      const socket = edge.websocket(service.port);
      await new Promise((resolve) => socket.addEventListener("open", resolve));
      const closed = closing(socket);
      socket.close();
      await closed;
    }
    await untilTrue(() => connections.size === 0);
    expect(connections.size).toBe(0);
  });
});
