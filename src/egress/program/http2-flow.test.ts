/** Header rules over HTTP/2, with Node's own client and server. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import {
  type ClientHttp2Session,
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { until } from "../../base/testing/until.ts";
import { attempt } from "../../system/command.ts";
import { FakeSocket } from "../testing/fake-socket.ts";
import { allowing, SANDBOX } from "../testing/relay-fixture.ts";
import { RuleFixture } from "../testing/rule-fixture.ts";
import { SHARE_BYTES, smallSandbox } from "../testing/small-sandbox.ts";
import { TestAuthority } from "../testing/test-authority.ts";
import { Flow } from "./flow.ts";
import { headOf, relayHttp2 } from "./http2-flow.ts";
import type { RuledSite } from "./rule-requests.ts";

const A = "127.0.0.2";

let stack: DisposableStack;
let sites: TestAuthority;
let sitePort: number;
let fixture: RuleFixture;
let seen: IncomingHttpHeaders[];
const sockets: TLSSocket[] = [];
/** What the site does with a stream. */
let respond: (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

beforeAll(async () => {
  stack = new DisposableStack();
  sites = stack.use(await TestAuthority.open());
  const site = createSecureServer({ key: sites.leafKeyPem, cert: await sites.sign("a.test") });
  site.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    seen.push(headers);
    respond(stream as ServerHttp2Stream, headers);
  });
  site.on("secureConnection", (socket) => void sockets.push(socket));
  stack.defer(() => void site.close());
  await new Promise<void>((resolve) => site.listen(0, A, resolve));
  sitePort = (site.address() as { port: number }).port;
  fixture = stack.use(await RuleFixture.open(sitePort, sites));
  fixture.inner.table.names.set("a.test", [A]);
});
afterAll(() => stack.dispose());
beforeEach(() => {
  seen = [];
  fixture.asked.length = 0;
  fixture.answer = () => ({ headers: [["X-Key", "the-value"]] });
  fixture.inner.relay.set(SANDBOX, { ...allowing("a.test"), ruleNames: ["a.test"] });
  respond = (stream) => {
    stream.respond({ ":status": 200 });
    stream.end("hello");
  };
});

function session(through = fixture): ClientHttp2Session {
  const socket = connectTls({
    host: "127.0.0.1",
    port: through.inner.relay.ports.tls,
    servername: "a.test",
    ca: through.authority.certificatePem,
    ALPNProtocols: ["h2"],
  });
  const client = connect("https://a.test", {
    createConnection: () => socket,
    settings: { initialWindowSize: 655_360 },
  });
  client.on("error", () => undefined);
  stack.defer(() => client.destroy());
  return client;
}

interface Answer {
  status: number | undefined;
  body: string;
  trailers: IncomingHttpHeaders;
  code: number;
}

async function answer(
  client: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body?: { bytes: string; trailers?: OutgoingHttpHeaders },
): Promise<Answer> {
  const stream = client.request(headers, { endStream: body === undefined, waitForTrailers: body !== undefined });
  const found: Answer = { status: undefined, body: "", trailers: {}, code: 0 };
  stream.on("wantTrailers", () => stream.sendTrailers(body?.trailers ?? {}));
  stream.on("response", (head) => {
    found.status = head[":status"];
  });
  stream.on("trailers", (trailers) => {
    found.trailers = trailers;
  });
  stream.on("data", (piece: Buffer) => {
    found.body += piece.toString("latin1");
  });
  stream.on("error", () => undefined);
  if (body !== undefined) stream.end(body.bytes);
  await new Promise<void>((resolve) => stream.once("close", resolve));
  found.code = stream.rstCode ?? 0;
  return found;
}

test("each stream gets the rule's headers instead of its own, and bodies and trailers pass", async () => {
  let version = 0;
  fixture.answer = () => ({ headers: [["X-Key", `version ${++version}`]] });
  respond = (stream) => {
    let text = "";
    let sum = "";
    stream.on("trailers", (trailers) => {
      sum = String(trailers["x-sum"]);
    });
    stream.on("data", (piece: Buffer) => {
      text += piece;
    });
    stream.on("end", () => {
      stream.respond({ ":status": 201, "set-cookie": ["a=1", "b=2"] }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "x-back": `${sum} ${text.length}` }));
      stream.end(text);
    });
  };
  const client = session();
  const first = await answer(client, { ":path": "/one", "x-key": "mine", x_key: "mine", "x-other": "kept" });
  expect(first).toMatchObject({ status: 201, body: "", code: 0 });
  const trailers = { "x-sum": "7", "x-key": "mine", x_key: "mine" };
  const second = await answer(client, { ":path": "/two", ":method": "POST" }, { bytes: "x".repeat(300_000), trailers });
  expect(second).toMatchObject({ status: 201, trailers: { "x-back": "7 300000" } });
  expect(second.body).toHaveLength(300_000);
  const found = seen.map((headers) => [":path", "x-key", "x_key", "x-other"].map((name) => headers[name]));
  expect(found).toEqual([
    ["/one", "version 1", undefined, "kept"],
    ["/two", "version 2", undefined, undefined],
  ]);
});

test("a stream for another host is not forwarded, and the others of its connection go on", async () => {
  const client = session();
  const other = await answer(client, { ":path": "/", ":authority": "b.test" });
  expect([other.status, other.body]).toEqual([421, expect.stringContaining("not for a.test")]);
  for (const method of ["TRACE", "trace"]) {
    expect((await answer(client, { ":path": "/", ":method": method })).status).toBe(405);
  }
  const two = await answer(client, { ":path": "/", ":authority": "a.test", host: "b.test" });
  expect(two).toMatchObject({ status: undefined, body: "" });
  expect([seen, fixture.asked]).toEqual([[], []]);
  expect(await answer(client, { ":path": "/", ":authority": "a.test:443" })).toMatchObject({ body: "hello" });
});

test.each([
  ["GET", "@b.test/", false],
  ["GET", ".b.test/", false],
  ["GET", "https://b.test/", false],
  ["GET", "/a b", false],
  ["GET", "", false],
  ["GET", "*", false],
  ["GET /b HTTP/1.1", "/", false],
  ["", "/", false],
  ["connect", "/", false],
  ["OPTIONS", "*", true],
  ["GET", "/\xe9?@b.test", true],
])("a request of HTTP/2 has a method and a path as one of HTTP/1: %j %j", (method, path, isRead) => {
  const raw = [":method", method, ":scheme", "https", ":authority", "a.test", ":path", path];
  expect(headOf(raw) !== undefined).toBe(isRead);
});

test("a stream that would be a tunnel is reset", async () => {
  const tunnel = await answer(session(), { ":path": "/", ":method": "connect" });
  expect([tunnel.status, seen, fixture.asked]).toEqual([undefined, [], []]);
});

test("a failing rule is a 502 of its stream", async () => {
  const client = session();
  fixture.answer = () => ({ failure: 'header rule "a.test": no such secret' });
  expect(await answer(client, { ":path": "/" })).toMatchObject({
    status: 502,
    body: 'header rule "a.test": no such secret\n',
  });
  expect(seen).toEqual([]);
});

test("a stream that is not read stops its sender, and not the other streams", async () => {
  const bytes = 16 * 1024 * 1024;
  let sent = 0;
  respond = (stream, headers) => {
    stream.respond({ ":status": 200 });
    if (headers[":path"] !== "/large") return void stream.end("hello");
    const piece = Buffer.alloc(64 * 1024, "x");
    const send = () => {
      while (sent < bytes && !stream.destroyed) {
        sent += piece.length;
        if (!stream.write(piece)) return void stream.once("drain", send);
      }
      stream.end();
    };
    send();
  };
  const client = session();
  await new Promise<void>((resolve) => client.once("connect", () => resolve()));
  client.setLocalWindowSize(1024 * 1024);
  const large = client.request({ ":path": "/large" });
  let before = -1;
  await until("nothing moves any more", () => {
    const isStill = sent > 0 && sent === before;
    before = sent;
    return isStill;
  });
  expect(sent).toBeLessThan(bytes / 2);
  expect(await answer(client, { ":path": "/small" })).toMatchObject({ body: "hello" });
  let received = 0;
  large.on("data", (piece: Buffer) => {
    received += piece.length;
  });
  await new Promise<void>((resolve) => large.once("end", resolve));
  expect(received).toBe(bytes);
});

test("a response that the site gives up is not passed on as complete", async () => {
  respond = (stream) => {
    stream.respond({ ":status": 200 });
    stream.write("a part");
    stream.destroy(new Error("given up"));
  };
  expect((await curl("https://a.test/")).stderr).toContain("curl: (92) HTTP/2 stream 1 was not closed cleanly");
  respond = (stream) => {
    stream.respond({ ":status": 200 });
    stream.write("a part");
    sockets.at(-1)?.destroy();
  };
  expect((await curl("https://a.test/")).exitCode).not.toBe(0);
});

test("a request that the sandbox gives up is reset at the site", async () => {
  let ending: string | undefined;
  respond = (stream) => {
    stream.respond({ ":status": 200 });
    stream.write("begun");
    stream.resume();
    stream.once("close", () => {
      ending = `closed with ${stream.rstCode}`;
    });
  };
  const left = session().request({ ":path": "/", ":method": "POST" }, { endStream: false });
  left.on("error", () => undefined);
  left.write("a part");
  await new Promise<void>((resolve) => left.once("data", () => resolve()));
  left.destroy(new Error("given up"));
  await until("the site knows", () => ending !== undefined);
  expect(ending).toBe(`closed with ${constants.NGHTTP2_INTERNAL_ERROR}`);
});

test("a connection that is cut while its sandbox exceeds its share of memory no longer counts", () => {
  const sandbox = smallSandbox();
  const client = new FakeSocket();
  const flow = new Flow(sandbox, client.socket, () => undefined);
  relayHttp2(flow, { host: "a.test", reportUnused: () => undefined } as RuledSite);
  sandbox.held(SHARE_BYTES + 1);
  expect([sandbox.http2Connections, sandbox.shared.http2Connections, client.isRead]).toEqual([1, 1, false]);
  sandbox.cutAll();
  expect([sandbox.http2Connections, sandbox.shared.http2Connections, sandbox.flows.size]).toEqual([0, 0, 0]);
});

test("curl uses HTTP/2 if the site does", async () => {
  expect((await curl("https://a.test/", "-w", " %{http_version}")).stdout).toBe("hello 2");
});

async function curl(...args: string[]) {
  const port = fixture.inner.relay.ports.tls;
  const to = ["--cacert", fixture.authority.file, "--connect-to", `a.test:443:127.0.0.1:${port}`];
  return await attempt(["curl", "-sS", "-m", "20", ...to, ...args]);
}

test("an idle connection outlives the time for its first bytes", async () => {
  const other = stack.use(await RuleFixture.open(sitePort, sites, { bounds: { helloMs: 3_000 } }));
  other.inner.table.names.set("a.test", [A]);
  other.inner.relay.set(SANDBOX, { ...allowing("a.test"), ruleNames: ["a.test"] });
  const client = session(other);
  expect(await answer(client, { ":path": "/" })).toMatchObject({ body: "hello" });
  await Bun.sleep(3_200);
  expect(await answer(client, { ":path": "/" })).toMatchObject({ body: "hello" });
});
