/** Delivery of one message to a webhook, over real sockets. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { webhookPost } from "./webhook-post.ts";

const open: { stop(): unknown }[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.stop();
});

interface Heard {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

function receiver(response: (request: Request) => Response | Promise<Response>, tls?: { key: string; cert: string }) {
  const received: Heard[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    ...(tls === undefined ? {} : { tls }),
    async fetch(request) {
      const headers = Object.fromEntries(request.headers);
      received.push({ method: request.method, url: request.url, headers, body: await request.text() });
      return response(request);
    },
  });
  open.push({ stop: () => server.stop(true) });
  return { port: server.port, received };
}

/** A server that says exactly this on every connection. */
async function speaker(say: (socket: Socket) => void): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => undefined);
    say(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push({ stop: () => server.close() });
  return (server.address() as { port: number }).port;
}

const message = (url: string) => ({ url, headers: { "e2b-webhook-id": "w" }, body: '{"ключ":1}' });
const inside = webhookPost({ allowInside: true });

describe("a message", () => {
  test("is a POST of JSON, and its result is the response status", async () => {
    const { port, received } = receiver(() => new Response("thanks", { status: 202 }));
    expect(await inside(message(`http://127.0.0.1:${port}/path?a=b%20c`))).toBe(202);
    expect(received[0]).toMatchObject({
      method: "POST",
      url: `http://127.0.0.1:${port}/path?a=b%20c`,
      body: '{"ключ":1}',
    });
    expect(received[0]?.headers).toMatchObject({ "content-type": "application/json", "e2b-webhook-id": "w" });
  });

  test("does not follow a redirect", async () => {
    const target = receiver(() => new Response());
    const { port } = receiver(() => Response.redirect(`http://127.0.0.1:${target.port}/`, 307));
    expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(307);
    expect(target.received).toEqual([]);
  });

  test.each([
    ["later", ""],
    ["at once", "x".repeat(65_536)],
  ])("is complete with the response head, however much follows %s", async (_when, following) => {
    const port = await speaker((socket) => {
      socket.write(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n${following}`);
      const flood = setInterval(() => socket.write("x".repeat(65_536)), 1);
      socket.on("close", () => clearInterval(flood));
    });
    expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(200);
  });

  test.each([
    ["no HTTP", "SSH-2.0-x\r\n".repeat(2000), "not HTTP"],
    ["a head without an end", `HTTP/1.1 200 OK\r\nx: ${"x".repeat(20_000)}`, "its head is too long"],
    ["an end", "", "closed without an answer"],
    ["half a line", "HTTP/1.1 2", "closed without an answer"],
  ])("that gets %s as a response fails", async (_what, output, why) => {
    const port = await speaker((socket) => socket.end(output));
    await expect(inside(message(`http://127.0.0.1:${port}/`))).rejects.toThrow(why);
  });

  test("that gets endless 1xx responses fails and closes the connection", async () => {
    const closed = Promise.withResolvers<void>();
    const port = await speaker((socket) => {
      const flood = setInterval(() => socket.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10)), 1);
      socket.on("close", () => {
        clearInterval(flood);
        closed.resolve();
      });
    });
    await expect(inside(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("its head is too long");
    await closed.promise;
  });

  test("accepts no protocol upgrade", async () => {
    const closed = Promise.withResolvers<void>();
    const port = await speaker((socket) => {
      socket.resume().on("close", () => closed.resolve());
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    });
    expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(101);
    await closed.promise;
  });

  test("has its own connection, which is closed afterwards", async () => {
    const closed: Promise<void>[] = [];
    const heads: string[] = [];
    const port = await speaker((socket) => {
      closed.push(new Promise((resolve) => socket.on("close", resolve)));
      socket.once("data", (head) => {
        heads.push(String(head));
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
      });
    });
    for (let nth = 0; nth < 2; nth++) expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(200);
    expect(closed).toHaveLength(2);
    expect(heads.every((head) => /^connection: close\r$/im.test(head))).toBe(true);
    await Promise.all(closed);
  });

  test("does not go through a proxy that the environment names", async () => {
    const proxy = receiver(() => new Response());
    const { port, received } = receiver(() => new Response());
    const before = process.env.HTTP_PROXY;
    process.env.HTTP_PROXY = `http://127.0.0.1:${proxy.port}`;
    try {
      expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(200);
    } finally {
      if (before === undefined) delete process.env.HTTP_PROXY;
      else process.env.HTTP_PROXY = before;
    }
    expect(received).toHaveLength(1);
    expect(proxy.received).toEqual([]);
  });

  test("that gets no response in time fails and closes the connection", async () => {
    const closed = Promise.withResolvers<void>();
    const port = await speaker((socket) => socket.resume().on("close", () => closed.resolve()));
    const impatient = webhookPost({ allowInside: true, timeoutMs: 50 });
    await expect(impatient(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("within 50 ms");
    await closed.promise;
  });

  test("whose host name does not resolve in time fails", async () => {
    const lost = webhookPost({ allowInside: true, timeoutMs: 50, resolve: () => new Promise(() => undefined) });
    await expect(lost(message("http://slow.example/"))).rejects.toThrow("within 50 ms");
  });

  test("to a closed port fails with the reason", async () => {
    const port = await speaker(() => undefined);
    open.pop()?.stop();
    await expect(inside(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("ECONNREFUSED");
  });
});

describe("the guard", () => {
  const resolving = (...addresses: string[]) => webhookPost({ allowInside: false, resolve: async () => addresses });

  test("rejects a name with a private address, even if it also has a public one", async () => {
    const { port, received } = receiver(() => new Response());
    const url = `http://evil.example:${port}/`;
    for (const addresses of [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"]]) {
      await expect(resolving(...addresses)(message(url))).rejects.toThrow("evil.example leads inside");
    }
    await expect(resolving()(message(url))).rejects.toThrow("no address");
    await expect(webhookPost({ allowInside: false })(message(`http://localhost:${port}/`))).rejects.toThrow(
      "leads inside",
    );
    await expect(webhookPost({ allowInside: false })(message(`http://127.0.0.1:${port}/`))).rejects.toThrow(
      "private address",
    );
    expect(received).toEqual([]);
  });

  test("resolves the name once and connects to the checked address", async () => {
    const { port, received } = receiver(() => new Response());
    let requestCount = 0;
    // DNS rebinding: the second answer would lead elsewhere.
    const rebinding = webhookPost({
      allowInside: true,
      resolve: async () => (requestCount++ === 0 ? ["127.0.0.1"] : ["127.0.0.9"]),
    });
    expect(await rebinding(message(`http://rebind.example:${port}/`))).toBe(200);
    expect(requestCount).toBe(1);
    expect(received[0]?.headers.host).toBe(`rebind.example:${port}`);
  });
});

describe("over TLS", () => {
  const { key, cert } = certificateFor("DNS:hooks.example");
  const resolve = async () => ["127.0.0.1"];

  test("the certificate must be for the name in the url, though the connection is to an address", async () => {
    const { port, received } = receiver(() => new Response(), { key, cert });
    const post = webhookPost({ allowInside: true, ca: cert, resolve });
    expect(await post(message(`https://hooks.example:${port}/`))).toBe(200);
    await expect(post(message(`https://other.example:${port}/`))).rejects.toThrow("connection failed");
    expect(received).toHaveLength(1);
  });

  test("the certificate must be for the address, where the url holds one", async () => {
    const named = receiver(() => new Response(), { key, cert });
    const numbered = certificateFor("IP:127.0.0.1");
    const good = receiver(() => new Response(), numbered);
    const post = (ca: string) => webhookPost({ allowInside: true, ca });
    expect(await post(numbered.cert)(message(`https://127.0.0.1:${good.port}/`))).toBe(200);
    await expect(post(cert)(message(`https://127.0.0.1:${named.port}/`))).rejects.toThrow("connection failed");
    expect(named.received).toEqual([]);
  });

  test("an untrusted certificate is refused", async () => {
    const { port, received } = receiver(() => new Response(), { key, cert });
    const post = webhookPost({ allowInside: true, resolve });
    await expect(post(message(`https://hooks.example:${port}/`))).rejects.toThrow("connection failed");
    expect(received).toEqual([]);
  });
});

function certificateFor(subjectAltName: string): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-webhook-"));
  try {
    const wanted = ["-days", "2", "-subj", "/CN=hooks.example", "-addext", `subjectAltName=${subjectAltName}`];
    const files = ["-keyout", `${folder}/key.pem`, "-out", `${folder}/cert.pem`];
    const made = Bun.spawnSync(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", ...wanted, ...files]);
    if (made.exitCode !== 0) throw new Error(made.stderr.toString());
    return { key: readFileSync(`${folder}/key.pem`, "utf8"), cert: readFileSync(`${folder}/cert.pem`, "utf8") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
