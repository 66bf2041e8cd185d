/** Private sandboxes: the edge forwards nothing to them without their traffic token, over any kind of connection. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { WakeRefusal, WakeRequest } from "../../contract/internal/directory.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { closing, EdgeUnderTest, hostOf, next, RawService, SANDBOX, UPGRADE } from "../testing/edge-under-test.ts";
import { serve, upgrading } from "../testing/service.ts";
import { trafficRefusal } from "./traffic-token.ts";

const TOKEN = "3f".repeat(32);
const RIGHT = { "E2B-Traffic-Access-Token": TOKEN };
const BROWSER = { "User-Agent": "Mozilla/5.0", "Sec-Fetch-Mode": "navigate" };

let edge: EdgeUnderTest;
let service: RawService;
beforeEach(async () => {
  edge = new EdgeUnderTest();
  service = await RawService.start(
    (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nok"),
  );
  close({ guardsRuntime: false });
});
afterEach(async () => {
  await service[Symbol.asyncDispose]();
  await edge[Symbol.asyncDispose]();
});

/** The sandbox is private from now on; its runtime is the service, too. */
function close(changes: { guardsRuntime: boolean; trafficToken?: string | null }): void {
  edge.access = { teamId: "team", trafficToken: TOKEN, maskRequestHost: null, httpsPorts: [], ...changes };
  edge.place({ runtimePort: service.port });
}

const MISSING = "The sandbox is private: the header e2b-traffic-access-token is missing";
const WRONG = "The sandbox is private: the header e2b-traffic-access-token holds another token";

describe("a request to a port of a private sandbox", () => {
  test("passes with the token, which the service receives unchanged", async () => {
    expect(await (await edge.fetch(service.port, "/", { headers: RIGHT })).text()).toBe("ok");
    expect(service.received[0]?.toLowerCase()).toContain(`\r\ne2b-traffic-access-token: ${TOKEN}\r\n`);
  });

  test.each([
    ["none", {}, MISSING, "Missing Traffic Access Token"],
    ["an empty one", { "E2B-Traffic-Access-Token": "" }, MISSING, "Missing Traffic Access Token"],
    ["another of the same length", { "E2B-Traffic-Access-Token": `${TOKEN.slice(1)}0` }, WRONG, "Invalid Traffic"],
    ["the beginning of it", { "E2B-Traffic-Access-Token": TOKEN.slice(0, 63) }, WRONG, "Invalid Traffic"],
    ["it and more", { "E2B-Traffic-Access-Token": `${TOKEN}0` }, WRONG, "Invalid Traffic"],
    ["letters of many bytes", { "E2B-Traffic-Access-Token": "é".repeat(64) }, WRONG, "Invalid Traffic"],
    ["it as another header", { "X-Access-Token": TOKEN, Cookie: `e2b-traffic-access-token=${TOKEN}` }, MISSING, ""],
  ] as [string, Record<string, string>, string, string][])("with %s is a 403", async (_n, headers, message, title) => {
    const response = await edge.fetch(service.port, `/?e2b-traffic-access-token=${TOKEN}`, { headers });
    expect([response.status, response.headers.get("content-type")]).toEqual([403, "application/json; charset=utf-8"]);
    expect(await response.text()).toBe(JSON.stringify({ sandboxId: SANDBOX, message, code: 403 }));
    const page = await edge.fetch(service.port, "/", { headers: { ...headers, ...BROWSER } });
    expect([page.status, page.headers.get("content-type")]).toEqual([403, "text/html; charset=utf-8"]);
    expect(await page.text()).toContain(`<title>${title}`);
    expect(service.sockets).toEqual([]);
  });

  test("with the token twice is a 403: it is ambiguous", async () => {
    const twice = `E2b-Traffic-Access-Token: ${TOKEN}\r\n`.repeat(2);
    const received = await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${twice}\r\n`, (text) =>
      text.includes("\r\n\r\n"),
    );
    expect(received).toStartWith("HTTP/1.1 403 ");
    expect(service.sockets).toEqual([]);
  });

  test("does not reach the service as a preflight", async () => {
    const headers = { origin: "https://a.test", "access-control-request-method": "GET" };
    expect((await edge.fetch(service.port, "/", { method: "OPTIONS", headers })).status).toBe(403);
    expect(service.sockets).toEqual([]);
  });

  test("needs the token for a WebSocket, too", async () => {
    const requestsMade = (more: string) =>
      edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${UPGRADE}${more}\r\n`, (text) =>
        text.includes("\r\n\r\n"),
      );
    expect(await requestsMade("")).toStartWith("HTTP/1.1 403 ");
    expect(await requestsMade("E2b-Traffic-Access-Token: no\r\n")).toStartWith("HTTP/1.1 403 ");
    expect(service.sockets).toEqual([]);
    await using chat = serve(upgrading, { open: (socket) => void socket.send("welcome") });
    const socket = edge.websocket(chat.port, "/", RIGHT);
    expect(await next(socket)).toBe("welcome");
    // Another token for the same run: open connections stay open.
    edge.access = { ...edge.access, trafficToken: "other" };
    edge.place({ runtimePort: service.port });
    expect((await edge.fetch(service.port, "/", { headers: RIGHT })).status).toBe(403);
    const closed = closing(socket);
    socket.close(4000, "by itself");
    expect(await closed).toBe("4000 by itself");
  });
});

describe("the runtime of a private sandbox", () => {
  test("needs its own token, not the traffic token", async () => {
    expect((await edge.fetch(RUNTIME_PORT, "/health")).status).toBe(200);
  });

  test.each([
    ["GET", "/health"],
    ["GET", "/files?path=/a&signature=v1_x"],
    ["POST", "/process.Process/Start"],
    ["OPTIONS", "/files"],
  ])("without a token of its own needs the traffic token: %s %s", async (method, path) => {
    close({ guardsRuntime: true });
    expect((await edge.fetch(RUNTIME_PORT, path, { method })).status).toBe(403);
    expect(service.sockets).toEqual([]);
    expect((await edge.fetch(RUNTIME_PORT, path, { method, headers: RIGHT })).status).toBe(200);
  });

  test("answers preflights at the edge, running or paused", async () => {
    close({ guardsRuntime: true });
    const question = {
      origin: "https://a.test",
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type,e2b-traffic-access-token",
    };
    const ask = () => edge.fetch(RUNTIME_PORT, "/process.Process/Start", { method: "OPTIONS", headers: question });
    const running = await ask();
    edge.end();
    edge.wake = async () => ({ refused: "traffic-token-missing" });
    for (const response of [running, await ask()]) {
      expect(response.status).toBe(204);
      expect(response.headers.get("access-control-allow-headers")).toBe("content-type,e2b-traffic-access-token");
    }
    expect(service.sockets).toEqual([]);
  });
});

describe("a private sandbox that is paused", () => {
  test("is woken with the token; a rejection is the same 403", async () => {
    edge.end();
    const requests: WakeRequest[] = [];
    let refused: WakeRefusal = "traffic-token-missing";
    edge.wake = async (_id, request) => {
      requests.push(request);
      return { refused };
    };
    const missing = await edge.fetch(3000, "/");
    refused = "traffic-token-wrong";
    const wrong = await edge.fetch(3000, "/", { headers: { "E2B-Traffic-Access-Token": "guess" } });
    expect(requests.map(({ trafficToken }) => trafficToken)).toEqual([null, "guess"]);
    expect([missing.status, await missing.json()]).toEqual([403, { sandboxId: SANDBOX, message: MISSING, code: 403 }]);
    expect([wrong.status, await wrong.json()]).toEqual([403, { sandboxId: SANDBOX, message: WRONG, code: 403 }]);
  });

  test("that was resumed by another client still needs the token", async () => {
    edge.end();
    edge.wake = async () => {
      close({ guardsRuntime: false });
      return { woken: true };
    };
    expect((await edge.fetch(service.port, "/")).status).toBe(403);
    expect(service.sockets).toEqual([]);
  });
});

test("a public sandbox needs no token, and gets it like any header", async () => {
  close({ guardsRuntime: false, trafficToken: null });
  expect((await edge.fetch(service.port, "/")).status).toBe(200);
  expect((await edge.fetch(service.port, "/", { headers: { "E2B-Traffic-Access-Token": "any" } })).status).toBe(200);
});

test("an empty token is rejected", () => {
  const access = { teamId: "team", trafficToken: "", guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
  expect(trafficRefusal(access, 3000, "")).toBe("traffic-token-missing");
});
