/** Proxied requests and responses: what each side receives, and that the end of one side reaches the other. */
import { describe, expect, test } from "bun:test";
import type { Socket } from "node:net";
import { untilTrue } from "../../base/testing/until.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { EdgeProcess, hostOf, RawService, SANDBOX } from "../testing/edge-under-test.ts";

const edge = edgeOfFile();

const OK = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
/** Resolves when the service's side of a connection has ended in any way. */
const closing = (socket: Socket | undefined) =>
  new Promise<void>((resolve) => {
    if (socket === undefined || socket.destroyed) resolve();
    else socket.once("close", () => resolve());
  });

const answering = (answer: string) => RawService.start((socket) => void socket.end(answer, "latin1"));

describe("the request reaches the service", () => {
  test("with method, target and end-to-end headers as they came, Host included", async () => {
    await using service = await answering(OK);
    const host = hostOf(service.port);
    await edge.raw(
      `PROPFIND /a%2Fb//c?x=%20&y=/../z HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: me\r\nAccept: a/b\r\n` +
        "Accept-Encoding: br\r\nCookie: k=v\r\nX-Odd: \xe9\r\nX-Access-Token: t\r\n\r\n",
      (received) => received.endsWith("ok"),
    );
    const [line, ...headers] = (service.received[0] ?? "").trimEnd().split("\r\n");
    expect(line).toBe("PROPFIND /a%2Fb//c?x=%20&y=/../z HTTP/1.1");
    expect(headers.map((header) => header.replace(/^[^:]*/, (name) => name.toLowerCase())).sort()).toEqual([
      "accept-encoding: br",
      "accept: a/b",
      "connection: close",
      "cookie: k=v",
      `host: ${host}`,
      "user-agent: me",
      "x-access-token: t",
      "x-odd: \xe9",
    ]);
  });

  test("without headers of the connection, of other proxies, and of the control channel", async () => {
    await using service = await answering(OK);
    await edge.raw(
      `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\nConnection: keep-alive, X-Mine, Host, b@d\r\nX-Mine: 1\r\n` +
        "Keep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nUpgrade: h2c\r\nProxy-Authorization: p\r\nProxy-Connection: q\r\n" +
        "Forwarded: for=1\r\nX-Forwarded-For: 1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: https\r\n" +
        "X-Forwarded-Anything: a\r\nX-Sandlot-Control: secret\r\nExpect: 100-continue\r\nX-Kept: yes\r\n\r\n",
      (received) => received.endsWith("ok"),
    );
    const names = (service.received[0] ?? "")
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(":")[0]?.toLowerCase());
    expect(names.filter(Boolean).sort()).toEqual(["connection", "host", "x-kept"]);
  });

  // Guards against requests that fetch changes: it adds Accept, User-Agent or a length of 0.
  test.each([
    ["GET", "", []],
    ["GET", "User-Agent: me\r\n", ["user-agent"]],
    ["GET", "Accept: a/b\r\n", ["accept"]],
    ["GET", "User-Agent: me\r\nAccept: a/b\r\n", ["accept", "user-agent"]],
    ["HEAD", "User-Agent: me\r\nAccept: a/b\r\n", ["accept", "user-agent"]],
    ["OPTIONS", "User-Agent: me\r\nAccept: a/b\r\n", ["accept", "user-agent"]],
    ["DELETE", "User-Agent: me\r\nAccept: a/b\r\n", ["accept", "user-agent"]],
    ["POST", "User-Agent: me\r\nAccept: a/b\r\n", ["accept", "user-agent"]],
    ["POST", "User-Agent: me\r\nAccept: a/b\r\nContent-Length: 0\r\n", ["accept", "content-length", "user-agent"]],
    ["POST", "Content-Length: 0\r\n", ["content-length"]],
    ["GET", "User-Agent: me\r\nAccept: a/b\r\nConnection: accept, user-agent\r\n", []],
  ])("without headers that the client did not send: %s %j", async (method, headers, expected) => {
    await using service = await answering(OK);
    await edge.raw(`${method} / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${headers}\r\n`, (text) =>
      text.includes("\r\n\r\n"),
    );
    const lines = (service.received[0] ?? "").trimEnd().split("\r\n").slice(1);
    const names = lines.map((line) => line.split(":")[0]?.toLowerCase() ?? "");
    expect(names.sort()).toEqual(["connection", "host", ...expected].sort());
  });

  test.each(["//a", "/a//b", "/a?b=//c", '/a|"<>^`{}'])("for the target %s unchanged", async (target) => {
    await using service = await answering(OK);
    const lines: string[] = [];
    for (const more of ["", "Accept: a/b\r\nUser-Agent: me\r\n"]) {
      const request = `GET ${target} HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${more}\r\n`;
      await edge.raw(request, (text) => text.endsWith("ok"));
      lines.push(service.received.at(-1)?.split("\r\n")[0] ?? "");
    }
    expect(lines[0]).toBe(lines[1] ?? "");
    if (target.startsWith("//")) expect(lines[0]).toBe(`GET ${target} HTTP/1.1`);
  });

  test.each([
    ["the team's key", "X-API-Key: e2b_0123456789abcdef", "x-api-key"],
    ["it beside another", "X-API-Key: mine\r\nX-API-Key: e2b_0123456789abcdef", "x-api-key"],
    ["the team's key as a bearer", "Authorization: Bearer e2b_0123456789abcdef", "authorization"],
    ["an admin token", "X-Admin-Token: sandlot_admin_0123456789abcdef", "x-admin-token"],
    ["a user's access token", "Authorization: bearer  sk_e2b_0123456789abcdef", "authorization"],
  ])("without %s", async (_name, header, dropped) => {
    await using service = await answering(OK);
    for (const more of ["", "Accept: a/b\r\nUser-Agent: me\r\n"]) {
      const request = `GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${header}\r\n${more}\r\n`;
      await edge.raw(request, (text) => text.endsWith("ok"));
    }
    expect(service.received).toHaveLength(2);
    for (const received of service.received) expect(received.toLowerCase()).not.toContain(`\r\n${dropped}:`);
  });

  test("with the service's own keys and tokens", async () => {
    await using service = await answering(OK);
    const own = ["x-api-key: sk-my-e2b_key", "x-admin-token: my-own", "authorization: Bearer eyJe2b_x"];
    await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n${own.join("\r\n")}\r\n\r\n`, (text) =>
      text.endsWith("ok"),
    );
    const [received = ""] = service.received;
    for (const line of own) expect(received.toLowerCase()).toContain(`\r\n${line.toLowerCase()}\r\n`);
  });

  test("on its own connection", async () => {
    await using service = await RawService.start((socket) => void socket.write(OK));
    for (let round = 0; round < 3; round += 1) expect(await (await edge.fetch(service.port, "/")).text()).toBe("ok");
    expect(service.sockets.length).toBe(3);
    await Promise.all(service.sockets.map(closing));
  });

  test("by routing headers as well as by host name", async () => {
    await using service = await answering(OK);
    const response = await fetch(edge.url, {
      headers: { "E2b-Sandbox-Id": SANDBOX, "E2b-Sandbox-Port": String(service.port) },
    });
    expect(await response.text()).toBe("ok");
  });

  test("with its body while it is still being sent", async () => {
    await using service = await RawService.start(() => undefined);
    const body = new TransformStream<Uint8Array, Uint8Array>();
    const writer = body.writable.getWriter();
    const response = edge.fetch(service.port, "/", { method: "POST", body: body.readable });
    for (const part of ["first", "second"]) {
      await writer.write(Buffer.from(part));
      await untilTrue(() => service.received[0]?.includes(part) === true);
    }
    await writer.close();
    await untilTrue(() => service.received[0]?.endsWith("0\r\n\r\n") === true);
    service.sockets[0]?.end(OK);
    expect((await response).status).toBe(200);
  });
});

describe("the response reaches the client", () => {
  test("with status, headers and every cookie, without headers of the connection", async () => {
    await using service = await answering(
      "HTTP/1.1 418 Teapot\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nX-Odd:  \xe9 \r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n" +
        "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 4\r\n\r\n\x1f\x8bxx",
    );
    const received = await edge.raw(`GET / HTTP/1.1\r\nHost: ${hostOf(service.port)}\r\n\r\n`, (text) =>
      text.endsWith("xx"),
    );
    const lines = received.split("\r\n").map((line) => line.toLowerCase());
    expect(lines[0]).toStartWith("http/1.1 418 ");
    for (const kept of [
      "content-encoding: gzip",
      "x-odd: \xe9",
      "set-cookie: a=1",
      "set-cookie: b=2",
      "content-length: 4",
    ]) {
      expect(lines).toContain(kept);
    }
    expect(received).not.toMatch(/x-hop|keep-alive|\nconnection/i);
    expect(received).toEndWith("\x1f\x8bxx");
  });

  test("without an added content type", async () => {
    await using service = await answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    expect((await edge.fetch(service.port, "/")).headers.get("content-type")).toBeNull();
  });

  test.each([
    ["302, not followed", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302],
    ["599", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", 599],
  ])("when it is a %s", async (_name, answer, status) => {
    await using service = await answering(answer);
    const response = await edge.fetch(service.port, "/");
    expect(response.status).toBe(status);
    expect(await response.text()).toBe("");
  });

  test("to HEAD with the Content-Length of the body", async () => {
    await using service = await answering("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\nContent-Type: a/b\r\n\r\n");
    const response = await edge.fetch(service.port, "/", { method: "HEAD" });
    expect(response.headers.get("content-length")).toBe("12345");
    expect(service.received[0]).toStartWith("HEAD / ");
  });

  test("to HEAD without the body of a refusal, so that the client finds the next answer", async () => {
    const to = `/ HTTP/1.1\r\nHost: 3000-${"x".repeat(20)}.example.com\r\n`;
    const received = await edge.raw(`HEAD ${to}\r\nGET ${to}Connection: close\r\n\r\n`);
    const [first, second, body, ...more] = received.split("\r\n\r\n");
    for (const head of [first, second]) expect(head).toStartWith("HTTP/1.1 502 ");
    expect(body).toStartWith('{"sandboxId":');
    expect(more).toEqual([]);
  });

  test("piece by piece, each before the next exists", async () => {
    await using service = await RawService.start((socket) => {
      socket.write(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nzero\r\n",
      );
    });
    const response = await edge.fetch(service.port, "/");
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("zero");
    for (const piece of ["one", "two", "three"]) {
      service.sockets[0]?.write(`${piece.length.toString(16)}\r\n${piece}\r\n`);
      const read = await reader?.read();
      expect(Buffer.from(read?.value ?? []).toString()).toBe(piece);
    }
    service.sockets[0]?.end("0\r\n\r\n");
    expect((await reader?.read())?.done).toBe(true);
  });
});

describe("an end on one side reaches the other", () => {
  test("the client disconnects before the response", async () => {
    const { promise: inService, resolve: arrived } = Promise.withResolvers<void>();
    await using service = await RawService.start(() => arrived());
    const leaving = new AbortController();
    const response = edge.fetch(service.port, "/", { signal: leaving.signal }).catch((failure: Error) => failure.name);
    await inService;
    const closed = closing(service.sockets[0]);
    leaving.abort();
    await closed;
    expect(await response).toBe("AbortError");
  });

  test("the client disconnects during the response", async () => {
    await using service = await RawService.start((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    });
    const leaving = new AbortController();
    const response = await edge.fetch(service.port, "/", { signal: leaving.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    const closed = closing(service.sockets[0]);
    leaving.abort();
    await closed;
  });

  test.each([
    ["hangs up within a counted body", "Content-Length: 10\r\n\r\nok", false],
    ["hangs up within a chunked body", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", false],
    ["resets within a counted body", "Content-Length: 10\r\n\r\nok", true],
    ["resets within a chunked body", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true],
  ])("the service %s: the response breaks for the client", async (_name, rest, reset) => {
    await using service = await RawService.start((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n${rest}`);
    });
    const response = await edge.fetch(service.port, "/");
    const reader = response.body?.getReader();
    expect((await reader?.read())?.value?.length).toBe(2);
    if (reset) service.sockets[0]?.resetAndDestroy();
    else service.sockets[0]?.end();
    await expect(reader?.read()).rejects.toThrow();
  });

  test.each([
    ["resets before its answer", (socket: Socket) => void socket.resetAndDestroy()],
    ["hangs up before its answer", (socket: Socket) => void socket.end()],
    ["does not speak HTTP", (socket: Socket) => void socket.end("SSH-2.0-x\r\n\r\n")],
  ])("the service %s: closed port, after a single attempt", async (_name, onHead) => {
    await using service = await RawService.start(onHead);
    const response = await edge.fetch(service.port, "/", { method: "POST", body: "x" });
    expect(response.status).toBe(502);
    expect(await response.json()).toEqual({
      sandboxId: SANDBOX,
      message: "The sandbox is running but port is not open",
      port: service.port,
      code: 502,
    });
    expect(service.sockets.length).toBe(1);
  });
});

test("HTTP_PROXY in the server's environment is not used for sandboxes", async () => {
  await using service = await answering(OK);
  await using proxied = await EdgeProcess.start({ HTTP_PROXY: "http://127.0.0.1:1", http_proxy: "http://127.0.0.1:1" });
  const response = await fetch(`http://127.0.0.1:${proxied.port}/`, { headers: { host: hostOf(service.port) } });
  expect(await response.text()).toBe("ok");
});
