/** One message to a webhook, over real sockets. */
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

function receiver(answer: (request: Request) => Response | Promise<Response>, tls?: { key: string; cert: string }) {
  const heard: Heard[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    ...(tls === undefined ? {} : { tls }),
    async fetch(request) {
      const headers = Object.fromEntries(request.headers);
      heard.push({ method: request.method, url: request.url, headers, body: await request.text() });
      return answer(request);
    },
  });
  open.push({ stop: () => server.stop(true) });
  return { port: server.port, heard };
}

/** Says exactly this to whoever connects. */
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
  test("is a POST of JSON, and the status is the answer", async () => {
    const { port, heard } = receiver(() => new Response("thanks", { status: 202 }));
    expect(await inside(message(`http://127.0.0.1:${port}/path?a=b%20c`))).toBe(202);
    expect(heard[0]).toMatchObject({
      method: "POST",
      url: `http://127.0.0.1:${port}/path?a=b%20c`,
      body: '{"ключ":1}',
    });
    expect(heard[0]?.headers).toMatchObject({ "content-type": "application/json", "e2b-webhook-id": "w" });
  });

  test("does not follow a redirect", async () => {
    const target = receiver(() => new Response());
    const { port } = receiver(() => Response.redirect(`http://127.0.0.1:${target.port}/`, 307));
    expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(307);
    expect(target.heard).toEqual([]);
  });

  test("is done with the first line of the answer, however much follows", async () => {
    const port = await speaker((socket) => {
      socket.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
      const flood = setInterval(() => socket.write("x".repeat(65_536)), 1);
      socket.on("close", () => clearInterval(flood));
    });
    expect(await inside(message(`http://127.0.0.1:${port}/`))).toBe(200);
  });

  test.each([
    ["no HTTP", "SSH-2.0-x\r\n".repeat(2000), "not HTTP"],
    ["an end", "", "closed without an answer"],
    ["half a line", "HTTP/1.1 2", "closed without an answer"],
  ])("that gets %s for an answer failed", async (_what, said, why) => {
    const port = await speaker((socket) => socket.end(said));
    await expect(inside(message(`http://127.0.0.1:${port}/`))).rejects.toThrow(why);
  });

  test("that gets no answer in time failed, and lets go of the connection", async () => {
    const closed = Promise.withResolvers<void>();
    const port = await speaker((socket) => socket.resume().on("close", () => closed.resolve()));
    const impatient = webhookPost({ allowInside: true, timeoutMs: 50 });
    await expect(impatient(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("within 50 ms");
    await closed.promise;
  });

  test("to a closed port failed with the reason", async () => {
    const port = await speaker(() => undefined);
    open.pop()?.stop();
    await expect(inside(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("ECONNREFUSED");
  });
});

describe("the guard", () => {
  const resolving = (...addresses: string[]) => webhookPost({ allowInside: false, resolve: async () => addresses });

  test("no connection is made to a name that leads inside, not even when another address of it is fine", async () => {
    const { port, heard } = receiver(() => new Response());
    const url = `http://evil.example:${port}/`;
    for (const addresses of [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"]]) {
      await expect(resolving(...addresses)(message(url))).rejects.toThrow("evil.example leads inside");
    }
    await expect(resolving()(message(url))).rejects.toThrow("no address");
    await expect(webhookPost({ allowInside: false })(message(`http://localhost:${port}/`))).rejects.toThrow(
      "leads inside",
    );
    await expect(webhookPost({ allowInside: false })(message(`http://127.0.0.1:${port}/`))).rejects.toThrow("inside");
    expect(heard).toEqual([]);
  });

  test("the name is asked for once, and the connection goes to the address that was checked", async () => {
    const { port, heard } = receiver(() => new Response());
    let asked = 0;
    // A name that changes its mind: the second answer would lead elsewhere.
    const rebinding = webhookPost({
      allowInside: true,
      resolve: async () => (asked++ === 0 ? ["127.0.0.1"] : ["127.0.0.9"]),
    });
    expect(await rebinding(message(`http://rebind.example:${port}/`))).toBe(200);
    expect(asked).toBe(1);
    expect(heard[0]?.headers.host).toBe(`rebind.example:${port}`);
  });
});

describe("over TLS", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-webhook-"));
  const made = Bun.spawnSync([
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "2",
    "-subj",
    "/CN=hooks.example",
    "-addext",
    "subjectAltName=DNS:hooks.example",
    "-keyout",
    `${folder}/key.pem`,
    "-out",
    `${folder}/cert.pem`,
  ]);
  if (made.exitCode !== 0) throw new Error(made.stderr.toString());
  const key = readFileSync(`${folder}/key.pem`, "utf8");
  const cert = readFileSync(`${folder}/cert.pem`, "utf8");
  rmSync(folder, { recursive: true });
  const resolve = async () => ["127.0.0.1"];

  test("the certificate must be for the name in the url, though the connection is to an address", async () => {
    const { port, heard } = receiver(() => new Response(), { key, cert });
    const post = webhookPost({ allowInside: true, ca: cert, resolve });
    expect(await post(message(`https://hooks.example:${port}/`))).toBe(200);
    await expect(post(message(`https://other.example:${port}/`))).rejects.toThrow("connection failed");
    expect(heard).toHaveLength(1);
  });

  test("a certificate that nobody vouches for is refused", async () => {
    const { port, heard } = receiver(() => new Response(), { key, cert });
    const post = webhookPost({ allowInside: true, resolve });
    await expect(post(message(`https://hooks.example:${port}/`))).rejects.toThrow("connection failed");
    expect(heard).toEqual([]);
  });
});
