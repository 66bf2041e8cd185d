/** Header rules, with real clients and sites on loopback. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from "node:tls";
import { until } from "../../base/testing/until.ts";
import { attempt } from "../../system/command.ts";
import { allowing, openOutside, SANDBOX } from "../testing/relay-fixture.ts";
import { RuleFixture } from "../testing/rule-fixture.ts";
import { TestAuthority } from "../testing/test-authority.ts";

const A = "127.0.0.2";

let stack: DisposableStack;
let sites: TestAuthority;
let fixture: RuleFixture;
let site: Server;
let sitePort: number;
/** What the site does with a request. */
let respond: (request: IncomingMessage, response: ServerResponse) => void;
let seen: IncomingMessage[];

beforeAll(async () => {
  stack = new DisposableStack();
  sites = stack.use(await TestAuthority.open());
  const certificate = { key: sites.leafKeyPem, cert: await sites.sign("a.test") };
  site = createServer(certificate, (request, response) => {
    seen.push(request);
    respond(request, response);
  });
  stack.defer(() => site.close());
  await new Promise<void>((resolve) => site.listen(0, A, resolve));
  sitePort = (site.address() as { port: number }).port;
  fixture = stack.use(await RuleFixture.open(sitePort, sites));
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
  const { tls: port } = fixture.inner.relay.ports;
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

test("a connection whose name is being resolved survives a change of the closed ranges", async () => {
  const { relay, table } = fixture.inner;
  relay.set(SANDBOX, { ...allowing(), denyRanges: [], ruleNames: ["a.test"] });
  const asked = table.queries.length;
  table.names.set("a.test", null);
  const response = curl("https://a.test/");
  await until("the name is asked for", () => table.queries.length > asked);
  relay.setClosed(["10.0.0.0/8"]);
  table.names.set("a.test", [A]);
  expect((await response).stdout).toContain("Bearer the-value");
});

test("a connection ends at once when its site is closed to sandboxes during the handshake", async () => {
  const { relay, table } = fixture.inner;
  using silent = openOutside("127.0.0.3", sitePort);
  table.names.set("b.test", [silent.address]);
  const response = curl("https://b.test/");
  await until("the site has a connection", () => silent.connections.length === 1);
  relay.setClosed([`${silent.address}/32`]);
  expect((await response).stderr).toMatch(/^curl: (?!.*timed out)/);
  relay.setClosed(["10.0.0.0/8"]);
  table.names.set("b.test", [A]);
});

test("a request for another host is not forwarded", async () => {
  for (const host of ["b.test", "a.test:444", "a.test.", "127.0.0.2"]) {
    const { socket, text } = await tls();
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await until(`${host} is refused`, () => text().includes("HTTP/1.1 421 "));
  }
  expect([seen, fixture.asked]).toEqual([[], []]);
});

/** Sends bytes in one TLS connection and returns the beginning of the response. */
async function exchange(bytes: string, hasIt: (text: string) => boolean): Promise<string> {
  const { socket, text } = await tls();
  socket.write(Buffer.from(bytes, "latin1"));
  let isClosed = false;
  socket.on("close", () => {
    isClosed = true;
  });
  await until(`a response to ${JSON.stringify(bytes.slice(0, 60))}`, () => hasIt(text()) || isClosed);
  socket.destroy();
  return text();
}

test.each([
  ["TRACE", "TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n", "405 "],
  ["trace in lower case", "trace / HTTP/1.1\r\nHost: a.test\r\n\r\n", "405 "],
  ["connect in lower case", "connect / HTTP/1.1\r\nHost: a.test\r\n\r\n", "400 "],
  ["CONNECT", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", "400 "],
  ["another host in the target", "GET https://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "400 "],
  ["another scheme in the target", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "400 "],
  ["two hosts", "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", "400 "],
  ["a host for the next server only", "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: host\r\n\r\n", "400 "],
  ["a folded line", "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n", "400 "],
  ["a bare line feed", "GET / HTTP/1.1\nHost: a.test\n\n", "400 "],
  ["a blank before a colon", "GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization : b\r\n\r\n", "400 "],
  ["two lengths", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400 "],
  [
    "a length and chunks",
    "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "400 ",
  ],
  ["HTTP/2 without its name", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400 "],
  ["no HTTP at all", "\x00\x01\x02\r\n\r\n", "400 "],
])("nothing is forwarded and nothing asked: %s", async (_, bytes, status) => {
  expect(await exchange(bytes, (text) => text.includes("\r\n\r\n"))).toStartWith(`HTTP/1.1 ${status}`);
  expect([seen, fixture.asked]).toEqual([[], []]);
});

test("a rule's header is not for the next server only, and not shadowed by one that CGI counts as the same", async () => {
  fixture.answer = () => ({ headers: [["X-Agent", "the-value"]] });
  for (const listed of ["X-Agent", "close, x_agent"]) {
    const bytes = `GET / HTTP/1.1\r\nHost: a.test\r\nConnection: ${listed}\r\n\r\n`;
    expect(await exchange(bytes, (text) => text.includes("\r\n\r\n"))).toStartWith("HTTP/1.1 400 ");
  }
  expect(seen).toEqual([]);
  const { stdout } = await curl("https://a.test/", "-H", "x_Agent: mine", "-H", "X_Agents: kept");
  const { headers } = JSON.parse(stdout);
  expect([headers["x-agent"], headers.x_agent, headers.x_agents]).toEqual(["the-value", undefined, "kept"]);
});

test("an upgrade to HTTP/2 is not passed on as one", async () => {
  const upgrade = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
  expect(await exchange(upgrade, (text) => text.includes("}"))).toStartWith("HTTP/1.1 200 ");
});

test("trailers with the name of a rule's header end the connection", async () => {
  const head = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
  expect(await exchange(`${head}1\r\na\r\n0\r\naUTHORIZATION: mine\r\n\r\n`, () => false)).toBe("");
  fixture.answer = () => ({ headers: [["X-Key", "the-value"]] });
  expect(await exchange(`${head}1\r\na\r\n0\r\nx_key: mine\r\n\r\n`, () => false)).toBe("");
  const other = await exchange(`${head}1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n`, (text) => text.includes("}"));
  expect(other).toContain('"body":"a"');
});

test.each([
  ["a line break in a value", ["X-Key", "a\r\nX-Other: b"]],
  ["a header that frames the request", ["Content-Length", "123456"]],
  ["a header that names the host", ["Host", "b.test"]],
  ["a name that is no name", ["X Key", "some value"]],
  ["too large a value", ["X-Key", "a".repeat(70_000)]],
] as const)("an unusable header is a 502 that does not show it: %s", async (_, header) => {
  fixture.answer = () => ({ headers: [header] });
  const text = await exchange("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", (text) => text.endsWith("header\n"));
  expect(text).toStartWith("HTTP/1.1 502 ");
  expect([text.includes(header[1]), seen.length]).toEqual([false, 0]);
  fixture.answer = () => ({ failure: 'header rule "a.test": the secret "k" does not exist' });
  expect(await exchange("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", (text) => text.endsWith("exist\n"))).toContain('"k"');
});

test("interim responses, upgrades and trailers of the site pass", async () => {
  const { socket, text } = await tls();
  respond = (request, response) => {
    request.resume();
    request.on("end", () => {
      response.writeHead(200, { Trailer: "X-Sum", "Transfer-Encoding": "chunked" });
      response.write("some");
      response.addTrailers({ "X-Sum": "4" });
      response.end();
    });
  };
  socket.write("POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  await until("the site wants the body", () => text().startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  socket.write("abc");
  await until("the trailer is here", () => text().includes("X-Sum: 4\r\n\r\n"));
  site.once("upgrade", (request, upgraded) => {
    upgraded.write(`HTTP/1.1 101 Switching\r\nUpgrade: toy\r\nConnection: upgrade\r\n\r\n`);
    upgraded.write(`key ${request.headers.authorization};`);
    upgraded.on("data", (bytes: Buffer) => upgraded.write(`echo ${bytes}`));
  });
  socket.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: toy\r\n\r\n");
  await until("it is upgraded", () => text().includes("key Bearer the-value;"));
  socket.write("GET / HTTP/1.1\r\n");
  await until("it is a tunnel", () => text().endsWith("echo GET / HTTP/1.1\r\n"));
});

test("large bodies pass both ways, and an unread one stops its sender", async () => {
  const bytes = 12 * 1024 * 1024;
  let sent = 0;
  respond = (request, response) => {
    if (request.method === "POST") {
      let received = 0;
      request.on("data", (piece: Buffer) => {
        received += piece.length;
      });
      request.on("end", () => response.end(String(received)));
      return;
    }
    const piece = Buffer.alloc(64 * 1024, "x");
    const send = () => {
      while (sent < bytes && !response.destroyed) {
        sent += piece.length;
        if (!response.write(piece)) return void response.once("drain", send);
      }
      response.end();
    };
    send();
  };
  const { socket, text } = await tls();
  socket.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
  socket.pause();
  let before = -1;
  await until("nothing moves any more", () => {
    const isStill = sent > 0 && sent === before;
    before = sent;
    return isStill;
  });
  expect(sent).toBeLessThan(bytes / 2);
  socket.resume();
  await until("all is here", () => text().endsWith("0\r\n\r\n"));
  expect(text().length).toBeGreaterThan(bytes);
  const upload = await tls();
  upload.socket.write(`POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${bytes}\r\n\r\n`);
  upload.socket.write(Buffer.alloc(bytes, "y"));
  await until(
    "all is there",
    () => upload.text().endsWith(`\r\n\r\n${bytes}`) || upload.text().includes(`${bytes}\r\n0`),
  );
});

test("a site that cannot be trusted or reached is a 502 with the reason, and one line in the log", async () => {
  fixture.inner.table.names.set("b.test", [A]).set("silent.test", ["127.0.0.99"]);
  const refused = async (name: string) => {
    fixture.inner.relay.set(SANDBOX, null);
    fixture.inner.relay.set(SANDBOX, { ...allowing("*.test"), ruleNames: ["*.test"] });
    const { stdout } = await curl(`https://${name}/`, "-w", "%{http_code}");
    return stdout;
  };
  expect(await refused("b.test")).toMatch(
    /^header rule "\*\.test": the TLS connection to b\.test failed: .*altnames.*\n502$/,
  );
  expect(await refused("gone.test")).toContain("gone.test has no IPv4 address that could be found\n502");
  expect(await refused("silent.test")).toContain("silent.test does not answer\n502");
  const failed = "the TLS connection to a.test failed: ";
  const ended = { key: sites.leafKeyPem, cert: await sites.sign("a.test", 0) };
  // The authority that sandboxes trust certifies no sites.
  const foreign = { key: fixture.authority.leafKeyPem, cert: await fixture.authority.sign("a.test") };
  for (const [certificate, address, why] of [
    [ended, "127.0.0.3", "certificate has expired"],
    [foreign, "127.0.0.4", "unable to verify the first certificate"],
  ] as const) {
    const other = createServer(certificate, (request) => void seen.push(request));
    stack.defer(() => void other.close());
    await new Promise<void>((resolve) => other.listen(sitePort, address, resolve));
    fixture.inner.table.names.set("a.test", [address]);
    expect(await refused("a.test")).toContain(`${failed}${why}\n502`);
  }
  fixture.inner.table.names.set("a.test", [A]);
  expect(await refused("a.test")).toContain("the-value");
  expect(fixture.inner.reports).toHaveLength(5);
  expect([fixture.asked.length, seen.length]).toEqual([1, 1]);
});

test("a client that does not trust the certificate is in the log, with the rule", async () => {
  const { exitCode } = await curl("https://a.test/", "--cacert", sites.file);
  expect(exitCode).toBe(60);
  await until("it is reported", () => fixture.inner.reports.length === 1);
  const [report] = fixture.inner.reports;
  expect(report).toStartWith(`${SANDBOX} header rule "a.test": a program did not accept the certificate for a.test (`);
  expect(seen).toEqual([]);
});

test("a rule that appears, changes or goes cuts the connections of its name, and no others", async () => {
  const { relay } = fixture.inner;
  const names = allowing("a.test", "b.test", "gone.test");
  for (const ruleNames of [["*.test"], [], ["a.test"]]) {
    const { socket, text } = await tls();
    socket.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    await until("it works", () => text().includes("}"));
    let isClosed = false;
    socket.once("close", () => {
      isClosed = true;
    });
    relay.set(SANDBOX, { ...names, ruleNames: ["a.test", "b.test", "c.test"] });
    expect(isClosed).toBe(false);
    relay.set(SANDBOX, { ...names, ruleNames });
    await until("it is cut", () => isClosed);
    if (ruleNames.length > 0) relay.set(SANDBOX, { ...names, ruleNames: ["a.test"] });
    else break;
  }
});

test("names without a rule are not intercepted", async () => {
  fixture.inner.relay.set(SANDBOX, { ...allowing("a.test"), ruleNames: ["b.test"] });
  expect((await curl("https://a.test/", "--cacert", sites.file)).stdout).not.toContain("the-value");
  expect([fixture.asked.length, fixture.certified.includes("a.test")]).toEqual([0, true]);
  expect(seen).toHaveLength(1);
});

test("only HTTP is offered to the site, and other protocols get an alert", async () => {
  const certificate = { key: sites.leafKeyPem, cert: await sites.sign("b.test") };
  const choosing = createTlsServer({ ...certificate, ALPNProtocols: ["acme-tls/1", "http/1.1", "h2"] });
  stack.defer(() => void choosing.close());
  await new Promise<void>((resolve) => choosing.listen(sitePort, "127.0.0.5", resolve));
  fixture.inner.table.names.set("b.test", ["127.0.0.5"]);
  const { socket } = await tls("b.test", ["acme-tls/1", "h2", "http/1.1"]);
  expect(socket.alpnProtocol).toBe("http/1.1");
  expect(tls("a.test", ["acme-tls/1"])).rejects.toThrow("NO_APPLICATION_PROTOCOL");
  expect((await tls("a.test")).socket.alpnProtocol).toBe(false);
});

test("a flood of requests is delayed, and does not delay other sandboxes", async () => {
  const bounds = { ruledBurst: 2, ruledPerSecond: 0.001 };
  const slow = stack.use(await RuleFixture.open(sitePort, sites, { bounds }));
  slow.inner.table.names.set("a.test", [A]);
  const other = "127.0.0.12";
  for (const source of [SANDBOX, other]) {
    slow.inner.relay.set(source, { ...allowing("a.test"), ruleNames: ["a.test"] });
  }
  const from = async (localAddress: string) => {
    const port = slow.inner.relay.ports.tls;
    const trust = ["--cacert", slow.authority.file, "--connect-to", `a.test:443:127.0.0.1:${port}`];
    return await attempt(["curl", "-sS", "-m", "60", "--interface", localAddress, ...trust, "https://a.test/"]);
  };
  for (const times of [1, 2]) expect([times, (await from(SANDBOX)).exitCode]).toEqual([times, 0]);
  const third = from(SANDBOX);
  expect((await from(other)).exitCode).toBe(0);
  expect(slow.asked.map(({ source }) => source)).toEqual([SANDBOX, SANDBOX, other]);
  slow.inner.relay.set(SANDBOX, null);
  expect((await third).exitCode).not.toBe(0);
});
