/** Responses of a hostile sandbox from the server's own address, where browsers also open the login pages. */
import { expect, test } from "bun:test";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import { edgeOfFile } from "../testing/edge-of-file.ts";
import { hostOf, RawService, SANDBOX } from "../testing/edge-under-test.ts";

const edge = edgeOfFile();

const ABOUT_ADDRESS = ["Clear-Site-Data", "NEL", "Report-To", "Strict-Transport-Security", "Alt-Svc"];
const HOSTILE = [
  "HTTP/1.1 200 OK",
  "Content-Type: text/html",
  "Content-Security-Policy: script-src *",
  "Cache-Control: max-age=9999",
  "Vary: Accept",
  "Set-Cookie: __Host-sandlot-login=1; Path=/; Secure",
  ...ABOUT_ADDRESS.map((name) => `${name}: x`),
  "Content-Length: 2",
  "",
  "ok",
].join("\r\n");

async function headersOf(target: string, lines: readonly string[], method = "GET"): Promise<string[]> {
  const response = await edge.raw(`${method} ${target} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`, (text) =>
    text.endsWith("ok"),
  );
  expect(response).toContain("200 OK");
  return response.toLowerCase().split("\r\n").slice(1);
}

const hostile = () => RawService.start((socket) => socket.end(HOSTILE));
const names = (headers: string[]) => headers.map((line) => line.split(":")[0] ?? "");
const NAMED = [`E2b-Sandbox-Id: ${SANDBOX}`, `E2b-Sandbox-Port: ${RUNTIME_PORT}`];

test.each([
  ["a signed link", "GET", "/files?path=/x.html&signature=v1_x", []],
  ["a signed link for an upload", "POST", "/files?path=/x.html&signature=v1_x", ["Content-Length: 0"]],
  ["a request that names the sandbox in a header", "GET", "/docs/api/cli", NAMED],
])(
  "the response to %s runs no script and sets nothing for the address, whose cookies stay behind",
  async (_, method, target, lines) => {
    await using service = await hostile();
    edge.place({ runtimePort: service.port });
    edge.findSigned = async () => SANDBOX;
    const cookie = "Cookie: __Host-sandlot-login=1";
    const headers = await headersOf(target, ["Host: api.example.com", cookie, ...lines], method);
    expect(service.received.join().toLowerCase()).not.toContain("cookie");
    expect(headers.filter((line) => line.startsWith("content-security-policy"))).toEqual([
      "content-security-policy: sandbox",
    ]);
    expect(headers).toContain("vary: accept");
    expect(headers).toContain("vary: e2b-sandbox-id, e2b-sandbox-port");
    expect(names(headers)).not.toContain("set-cookie");
    for (const name of ABOUT_ADDRESS) expect(names(headers)).not.toContain(name.toLowerCase());
  },
);

test("a response of another port, named in a header, is cached for that sandbox and port only", async () => {
  await using service = await hostile();
  edge.place();
  const lines = [`E2b-Sandbox-Id: ${SANDBOX}`, `E2b-Sandbox-Port: ${service.port}`];
  const headers = await headersOf("/docs/api/cli", ["Host: api.example.com", ...lines]);
  expect(headers).toContain("vary: e2b-sandbox-id, e2b-sandbox-port");
  for (const name of ABOUT_ADDRESS) expect(names(headers)).not.toContain(name.toLowerCase());
  // Programs may use cookies; a browser sends none with a request to which it adds these headers.
  expect(names(headers)).toContain("set-cookie");
});

test("on its own host name a sandbox decides all its headers", async () => {
  await using service = await hostile();
  edge.place({ runtimePort: service.port });
  const headers = await headersOf("/files", [`Host: ${hostOf(RUNTIME_PORT)}`, "Cookie: a=b"]);
  expect(service.received.join().toLowerCase()).toContain("cookie: a=b");
  expect(headers).toContain("content-security-policy: script-src *");
  expect(headers.filter((line) => line.startsWith("vary"))).toEqual(["vary: accept"]);
  expect(names(headers)).toContain("set-cookie");
});
