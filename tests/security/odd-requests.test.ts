/**
 * Request smuggling: requests that two parsers may read differently, sent byte for byte to the server's own listener,
 * for a service in a sandbox and for the management API. The service sees one request or none, never a hidden
 * one.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { startListening } from "../support/listening.ts";
import { rawRequest } from "../support/raw-request.ts";
import { sharedServer } from "../support/shared-server.ts";

const PORT = 8080;
/** A server that waits for more of a request sends nothing; then the client leaves. */
const QUIET_MS = 5_000;
const server = sharedServer();
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, timeoutMs: 600_000 });
  const program = join(import.meta.dir, "../support/services/request-recorder.py");
  await sandbox.files.write("/tmp/recorder.py", await Bun.file(program).text());
  await startListening(sandbox, `exec python3 -u /tmp/recorder.py ${PORT}`);
});

const host = () => `${PORT}-${sandbox.sandboxId}.anything.test`;
/** A smuggled request. No sandbox has its host, so the edge never sends it itself. */
const HIDDEN = "GET /hidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/** All that comes back until the server closes, or is quiet. */
function exchange(bytes: string): Promise<string> {
  const { hostname, port } = new URL(server().url);
  return new Promise((resolve) => {
    let received = "";
    const socket = connect(Number(port), hostname, () => socket.write(Buffer.from(bytes, "latin1")));
    socket.setTimeout(QUIET_MS, () => socket.destroy());
    socket.on("data", (piece: Buffer) => {
      received += piece.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(received));
  });
}

/** The requests that the service has parsed since the last call. */
async function seen(): Promise<string[]> {
  const { status, body } = await rawRequest(server().url, { target: "/seen", host: host() });
  expect(status).toBe(200);
  return body.split("\n").filter((line) => line !== "");
}

const body = (rest: string) => `POST /odd HTTP/1.1\r\nHost: HOST\r\n${rest}`;

/** HOST is replaced by the sandbox's host name. */
const AMBIGUOUS: Record<string, string> = {
  "length and chunks": body(
    `Content-Length: ${5 + HIDDEN.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ),
  "chunks and length": body(`Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "two lengths": body(`Content-Length: ${HIDDEN.length}\r\nContent-Length: 0\r\n\r\n${HIDDEN}`),
  "a list of lengths": body(`Content-Length: 0, ${HIDDEN.length}\r\n\r\n${HIDDEN}`),
  "a length with a sign": body(`Content-Length: +${HIDDEN.length}\r\n\r\n${HIDDEN}`),
  "a length in hexadecimal": body(`Content-Length: 0x10\r\n\r\n${HIDDEN}`),
  "a length of two words": body(`Content-Length: 1 0\r\n\r\n${HIDDEN}`),
  "a length beyond 64 bits": body(`Content-Length: 18446744073709551616\r\n\r\n${HIDDEN}`),
  "a folded coding": body(`Transfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "a folded length": body(`Content-Length: 0\r\n 0\r\n\r\n${HIDDEN}`),
  "a coding after a tab": body(`Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "a coding before a space": body(`Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "a coding behind a vertical tab": body(
    `Transfer-Encoding:\x0bchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ),
  "a coding that nobody knows": body(`Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "two codings": body(`Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`),
  "a coding of HTTP/1.0": `POST /odd HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  "a chunk beyond 64 bits": body(`Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n${HIDDEN}\r\n0\r\n\r\n`),
  "a chunk of a negative size": body(`Transfer-Encoding: chunked\r\n\r\n-1\r\n${HIDDEN}`),
  "chunks with bare line feeds": body(`Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n${HIDDEN}`),
  "an extension with a line feed": body(`Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n${HIDDEN}`),
  "bare line feeds in the head": `POST /odd HTTP/1.1\nHost: HOST\nContent-Length: 0\n\n${HIDDEN}`,
  "a bare carriage return in a header": body(
    `X: a\rContent-Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  ),
  "a NUL in a header": body(`X: a\0b\r\nContent-Length: 0\r\n\r\n${HIDDEN}`),
  "a header without a colon": body(`Content-Length\r\nContent-Length: 0\r\n\r\n${HIDDEN}`),
  "a space before the first header": `POST /odd HTTP/1.1\r\n Host: x\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n${HIDDEN}`,
  "a length that is for the next hop only": body(`Connection: content-length\r\nContent-Length: 0\r\n\r\n${HIDDEN}`),
  "a coding that is for the next hop only": body(
    `Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ),
  "a line end in the target": `GET /odd\r\nX: y HTTP/1.1\r\nHost: HOST\r\n\r\n${HIDDEN}`,
  "two targets": `GET /odd /hidden HTTP/1.1\r\nHost: HOST\r\n\r\n${HIDDEN}`,
  "no version": `GET /odd\r\n\r\n${HIDDEN}`,
  "the beginning of HTTP/2": `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${HIDDEN}`,
  "an upgrade to HTTP/2": `GET /odd HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n${HIDDEN}`,
  "a WebSocket that the service does not know": `GET /odd HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n${HIDDEN}`,
  "a WebSocket of another version": `GET /odd HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\n\r\n${HIDDEN}`,
  "an expectation": body(`Expect: 100-continue\r\nContent-Length: 0\r\n\r\n${HIDDEN}`),
  "a second host": `GET /odd HTTP/1.1\r\nHost: HOST\r\nHost: x\r\n\r\n${HIDDEN}`,
  "another host in the target": `GET http://x/odd HTTP/1.1\r\nHost: HOST\r\n\r\n${HIDDEN}`,
  "a tunnel": `CONNECT HOST:80 HTTP/1.1\r\nHost: HOST\r\n\r\n${HIDDEN}`,
};

/** Each with its own paths, so that all can be sent at once and still be told apart. */
const numbered = Object.entries(AMBIGUOUS).map(([name, text], number) => ({
  name,
  number,
  text: text.replaceAll("/odd", `/odd/${number}`).replaceAll("/hidden", `/hid${String(number).padStart(3, "0")}`),
}));

test(`a service never sees a request hidden in another one (${numbered.length} variants)`, async () => {
  await Promise.all(numbered.map(({ text }) => exchange(text.replaceAll("HOST", host()))));
  const requests = await seen();
  const wrong = requests.filter((line) => !/^(?:GET|POST) (?:http:\/\/[^/]*)?\/odd\/\d+$/.test(line));
  const twice = requests.filter((line, at) => requests.indexOf(line) !== at);
  expect({ wrong, twice, ways: numbered.map(({ name, number }) => `${number} ${name}`) }).toMatchObject({
    wrong: [],
    twice: [],
  });
  // The check works: an unambiguous request is forwarded and recorded.
  await exchange(`GET /odd/plain HTTP/1.1\r\nHost: ${host()}\r\nConnection: close\r\n\r\n`);
  expect(await seen()).toContain("GET /odd/plain");
});

test("the management API answers each request separately, and none without a key", async () => {
  const { host: own } = new URL(server().url);
  const answers = await Promise.all(
    numbered.map(async ({ name, text }) => {
      const answer = await exchange(text.replace(/\/odd\/\d+/, "/sandboxes").replaceAll("HOST", own));
      return { name, answer };
    }),
  );
  expect(answers.filter(({ answer }) => /^HTTP\/1\.1 (?:2\d\d|500) /m.test(answer))).toEqual([]);
  expect((await fetch(`${server().url}/health`)).status).toBe(200);
});

describe("a header cannot smuggle another header", () => {
  test.each([
    ["a header of the client", (line: string) => ({ "X-Own": `a${line}` })],
    ["a routing header", (line: string) => ({ "E2b-Sandbox-Id": `${sandbox.sandboxId}${line}` })],
    ["a port", (line: string) => ({ "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": `${PORT}${line}` })],
    ["a token", (line: string) => ({ "E2b-Traffic-Access-Token": `x${line}` })],
    ["an origin", (line: string) => ({ Origin: `http://a${line}` })],
  ])("in %s", async (_name, headers) => {
    const ends = ["\r", "\n", "\r\n", "\u010d\u010a", "%0d%0a"].map(async (end) => {
      const fields = Object.entries(headers(`${end}X-Sandlot-Control: forged${end}Host: x`));
      const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
      await exchange(`GET /odd HTTP/1.1\r\nHost: ${host()}\r\n${lines}Connection: close\r\n\r\n`);
    });
    await Promise.all(ends);
    expect((await seen()).filter((line) => line !== "GET /odd")).toEqual([]);
  });
});

describe("a sandbox is addressed only by its exact name", () => {
  test.each([
    `0-ID.x`,
    `65536-ID.x`,
    `${PORT}-ID@x`,
    `x@${PORT}-ID.x`,
    `${PORT}-ID%2ex`,
    `${PORT}-ID\u3002x`,
    `-${PORT}-ID.x`,
    `${PORT}\u2010ID.x`,
    `[${PORT}-ID.x]`,
    `${PORT}-ID.x:99999999`,
    `${PORT}-ID.x, ${PORT}-ID.x`,
    `${"0".repeat(6)}${PORT}-ID.x`,
  ])("%s", async (name) => {
    const target = name.replaceAll("ID", sandbox.sandboxId);
    const answers = await exchange(
      `GET /odd HTTP/1.1\r\nHost: ${Buffer.from(target).toString("latin1")}\r\nConnection: close\r\n\r\n`,
    );
    // A request reaches the named sandbox or none.
    if (/^HTTP\/1\.1 200 /.test(answers)) expect(name).toContain(`${PORT}-ID`);
    expect((await seen()).filter((line) => line !== "GET /odd")).toEqual([]);
  });
});
