/** Services in a sandbox are reachable at its URL: any bind, any method, streams and WebSockets. */
import { beforeAll, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { startListening, startService } from "../../support/listening.ts";
import { rawRequest } from "../../support/raw-request.ts";
import { sharedServer } from "../../support/shared-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = sharedServer();
const WEB = 8000;
const SOCKET = 8100;
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  await startService(sandbox, "web-service", WEB);
  await startService(sandbox, "websocket-echo", SOCKET);
});

const hostOf = (port: number) => `${port}-${sandbox.sandboxId}.anything.test`;

/** Sends a request to a port of the sandbox by its host name. */
const ask = (port: number, path: string, init: RequestInit = {}) =>
  fetch(`${server().url}${path}`, {
    redirect: "manual",
    ...init,
    headers: { Host: hostOf(port), ...(init.headers as Record<string, string> | undefined) },
  });

const echoed = async (response: Response) =>
  (await response.json()) as {
    method: string;
    url: string;
    headers: Record<string, string>;
    length: number;
    sha256: string;
  };

let nextPort = 9000;
test.each(
  ["0.0.0.0", "::", "127.0.0.1", "::1", "localhost"].flatMap((bind) => [
    { bind, program: "node", port: nextPort++ },
    { bind, program: "python", port: nextPort++ },
  ]),
)("a $program server bound to $bind is reached by host name and by headers", async ({ bind, program, port }) => {
  const service =
    program === "node"
      ? await startService(sandbox, "web-service", port, bind)
      : await startListening(sandbox, `exec python3 -u -m http.server ${port} --bind ${bind} --directory /etc`);
  const path = program === "node" ? "/echo" : "/hostname";
  const expected = program === "node" ? `"host":"${bind}"` : "e2b.local";
  expect(await (await ask(port, path)).text()).toContain(expected);
  const byHeaders = await fetch(`${server().url}${path}`, {
    headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": String(port) },
  });
  expect(await byHeaders.text()).toContain(expected);
  await service.kill();
});

test("the client's host name works in any domain and with any port", async () => {
  for (const host of [sandbox.getHost(WEB), `${hostOf(WEB)}:1234`, `${WEB}-${sandbox.sandboxId}-6532622b.other.test`]) {
    const { status, body } = await rawRequest(server().url, { target: "/echo", host });
    expect(status).toBe(200);
    expect(JSON.parse(body).headers.host).toBe(host);
  }
});

test("a request arrives as it was sent", async () => {
  const headers = { "X-Own": "yes", Cookie: "a=1; b=2", "Content-Type": "text/plain" };
  const seen = await echoed(await ask(WEB, "/echo/a%20b/%2F?x=1&y=%26", { method: "POST", headers, body: "the body" }));
  expect(seen).toMatchObject({ method: "POST", url: "/echo/a%20b/%2F?x=1&y=%26", length: 8 });
  expect(seen.headers).toMatchObject({ "x-own": "yes", cookie: "a=1; b=2", host: hostOf(WEB) });
});

// The server's HTTP parser resolves these first, so the path that is checked is also the path that is forwarded.
test.each([
  ["/a/./b", "/a/b"],
  ["/a/../b", "/b"],
  ["/%2e%2e/a", "/a"],
])("dot segments are resolved: %s arrives as %s", async (target, arrives) => {
  const { body } = await rawRequest(server().url, { target, host: hostOf(WEB) });
  expect(JSON.parse(body).url).toBe(arrives);
});

test("32 MiB arrive unchanged, streamed or not", async () => {
  const data = new Uint8Array(32 * 1024 * 1024).map((_, at) => (at * 7 + (at >> 12)) & 255);
  const sha256 = new Bun.CryptoHasher("sha256").update(data).digest("hex");
  for (const body of [data, new Blob([data]).stream()]) {
    expect(await echoed(await ask(WEB, "/echo", { method: "POST", body }))).toMatchObject({
      length: data.length,
      sha256,
    });
  }
});

test("server-sent events arrive one by one", async () => {
  const events = await ask(WEB, "/events");
  expect(events.headers.get("content-type")).toBe("text/event-stream");
  const reader = (events.body as ReadableStream<Uint8Array>).getReader();
  const piece = async () => new TextDecoder().decode((await reader.read()).value);
  expect(await piece()).toBe("data: begin\n\n");
  for (let round = 0; round < 3; round += 1) {
    // The service sends nothing more before this request, so data held back on the way would never arrive.
    const next = await (await ask(WEB, "/next")).text();
    expect(await piece()).toBe(`data: ${next}\n\n`);
  }
  await reader.cancel();
});

/** The types of browsers hide that Bun's client takes headers. */
const BunWebSocket = WebSocket as unknown as new (url: string, options: Bun.WebSocketOptions) => Bun.WebSocket;

async function openSocket(port: number, path: string, protocols: string[] = []) {
  const headers = { Host: hostOf(port) };
  const socket = new BunWebSocket(`${server().url.replace("http", "ws")}${path}`, { headers, protocols });
  socket.binaryType = "arraybuffer";
  const messages: (string | ArrayBuffer)[] = [];
  const waiting: ((message: string | ArrayBuffer) => void)[] = [];
  const closed = Promise.withResolvers<{ code: number }>();
  socket.onmessage = ({ data }) => {
    const next = waiting.shift();
    if (next === undefined) messages.push(data);
    else next(data);
  };
  socket.onclose = (event) => closed.resolve(event);
  const message = async () =>
    messages.shift() ?? (await new Promise<string | ArrayBuffer>((take) => waiting.push(take)));
  const gone = closed.promise.then(({ code }) => {
    throw new Error(`closed with ${code} before it spoke`);
  });
  expect(await Promise.race([message(), gone])).toBe(`connected to ${path}`);
  gone.catch(() => undefined);
  return { socket, message, closed: closed.promise };
}

test.each(["0.0.0.0", "127.0.0.1"])("a WebSocket server bound to %s echoes messages", async (bind) => {
  const port = nextPort++;
  const service = await startService(sandbox, "websocket-echo", port, bind);
  const { socket, message, closed } = await openSocket(port, "/chat?room=1");
  for (const text of ["hello", "", "ü€😀", "x".repeat(100_000)]) {
    socket.send(text);
    expect(await message()).toBe(text);
  }
  const bytes = crypto.getRandomValues(new Uint8Array(65_000));
  socket.send(bytes);
  expect(Buffer.compare(Buffer.from((await message()) as ArrayBuffer), bytes)).toBe(0);
  socket.send("close 4321");
  expect((await closed).code).toBe(4321);
  await service.kill();
});

test("a kill breaks connections to a sandbox, and its URL is 502 afterwards", async () => {
  const doomed = await Sandbox.create(server().options);
  await startService(doomed, "web-service", WEB);
  const toDoomed = { headers: { Host: `${WEB}-${doomed.sandboxId}.anything.test` } };
  const events = await fetch(`${server().url}/events`, toDoomed);
  const reader = (events.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await doomed.kill();
  // A clean end would look like a complete response.
  await refusalOf(reader.read());
  const after = await fetch(`${server().url}/events`, toDoomed);
  expect(after.status).toBe(502);
  expect(await after.json()).toEqual({ sandboxId: doomed.sandboxId, message: "The sandbox was not found", code: 502 });
});
