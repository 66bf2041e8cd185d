/** Header rules, with real clients and sites on loopback. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { until } from "../../base/testing/until.ts";
import { attempt } from "../../system/command.ts";
import { allowing, SANDBOX } from "../testing/relay-fixture.ts";
import { RuleFixture } from "../testing/rule-fixture.ts";
import { TestAuthority } from "../testing/test-authority.ts";

const A = "127.0.0.2";

let stack: DisposableStack;
let sites: TestAuthority;
let fixture: RuleFixture;
let site: Server;
/** What the site does with a request. */
let respond: (request: IncomingMessage, response: ServerResponse) => void;
let seen: IncomingMessage[];

beforeAll(async () => {
  stack = new DisposableStack();
  sites = stack.use(await TestAuthority.open());
  site = createServer({ key: sites.leafKeyPem, cert: await sites.sign("a.test") }, (request, response) => {
    seen.push(request);
    respond(request, response);
  });
  stack.defer(() => site.close());
  await new Promise<void>((resolve) => site.listen(0, A, resolve));
  const { port } = site.address() as { port: number };
  fixture = stack.use(await RuleFixture.open(port, sites));
  fixture.inner.table.names.set("a.test", [A]).set("b.test", [A]).set("gone.test", []);
});
afterAll(() => stack.dispose());
beforeEach(() => {
  seen = [];
  fixture.asked.length = 0;
  fixture.answer = () => ({ headers: [["Authorization", "Bearer the-value"]] });
  fixture.inner.relay.set(SANDBOX, null);
  fixture.inner.relay.set(SANDBOX, { ...allowing("a.test", "b.test", "gone.test"), ruleNames: ["a.test", "b.test"] });
  fixture.inner.reports.length = 0;
  respond = (request, response) => {
    const { method, url, headers } = request;
    const pieces: Buffer[] = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => response.end(JSON.stringify({ method, url, headers, body: `${Buffer.concat(pieces)}` })));
  };
});

async function curl(url: string, ...args: string[]) {
  const { hostname } = new URL(url);
  const port = fixture.inner.relay.ports.tls;
  const trust = ["--cacert", fixture.authority.file, "--connect-to", `${hostname}:443:127.0.0.1:${port}`];
  return await attempt(["curl", "-sS", "-m", "20", "--http1.1", ...trust, ...args, url]);
}

/** A TLS connection to the relay as a program in the sandbox opens it. */
async function tls(
  servername = "a.test",
  ALPNProtocols?: string[],
): Promise<{ socket: TLSSocket; text: () => string }> {
  const { port } = { port: fixture.inner.relay.ports.tls };
  const ca = fixture.authority.certificatePem;
  const socket = connectTls({ host: "127.0.0.1", port, servername, ca, ...(ALPNProtocols && { ALPNProtocols }) });
  stack.defer(() => void socket.destroy());
  let text = "";
  socket.on("data", (piece) => {
    text += piece.toString("latin1");
  });
  socket.on("error", () => undefined);
  await new Promise<void>((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  return { socket, text: () => text };
}

test("a request gets the rule's headers, and its own copies of them are replaced", async () => {
  const { stdout, stderr } = await curl("https://a.test/path?q", "-H", "authorization: mine", "-H", "X-Other: Kept");
  expect(stderr).toBe("");
  const { method, url, headers } = JSON.parse(stdout);
  expect({ method, url }).toEqual({ method: "GET", url: "/path?q" });
  expect(headers).toMatchObject({ host: "a.test", authorization: "Bearer the-value", "x-other": "Kept" });
  expect(fixture.asked).toEqual([{ question: expect.any(String), source: SANDBOX, pattern: "a.test", host: "a.test" }]);
});

test("headers are asked for each request of a kept connection", async () => {
  let version = 0;
  fixture.answer = () => ({ headers: [["X-Key", `version ${++version}`]] });
  const { socket, text } = await tls();
  for (const turn of [1, 2]) {
    socket.write("GET / HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
    await until("it has its response", () => text().includes(`"x-key":"version ${turn}"`));
  }
});

test("a request for another host is not forwarded", async () => {
  for (const host of ["b.test", "a.test:444", "a.test.", "127.0.0.2"]) {
    const { socket, text } = await tls();
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await until(`${host} is refused`, () => text().includes("HTTP/1.1 421 "));
  }
  expect([seen, fixture.asked]).toEqual([[], []]);
});
