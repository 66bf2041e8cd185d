/**
 * One host name for each port of each sandbox, with TLS: clients know only the domain, a key and the certificate
 * authority. Uses the default port, the only one that URLs may omit, so no other test may listen there.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { Sandbox } from "e2b";
import { attempt } from "../../../src/system/command.ts";
import { LocalAuthority } from "../../../src/tls/local-authority.ts";
import { cliOfFile } from "../../support/e2b-cli.ts";
import { startService } from "../../support/listening.ts";
import { sandlotTls } from "../../support/programs/sandlot-tls.ts";
import { useWithDomain } from "../../support/programs/sdk-with-domain.ts";
import { newDataFolder, startServer, type TestServer, tearDownServer } from "../../support/server.ts";
import { until } from "../../support/until.ts";

const DOMAIN = "sandlot.localhost";
const folder = newDataFolder("domain-mode");
const trust = { ca: `${folder}-trust/ca.pem`, bundle: `${folder}-trust/bundle.pem` };
const WEB = 8000;
const SOCKET = 8100;

let server: TestServer;
let output: string;
/** Has services; made by a client that knows the server's one URL. */
let serving: Sandbox;
beforeAll(async () => {
  const made = await sandlotTls(folder);
  output = made.stdout;
  expect([made.exitCode, made.stderr]).toEqual([0, ""]);
  server = await startServer(folder, { SANDLOT_READY: "0" });
  serving = await Sandbox.create({ ...server.options, timeoutMs: 600_000 });
  await startService(serving, "web-service", WEB);
  await startService(serving, "websocket-echo", SOCKET, "127.0.0.1");
});
afterAll(async () => {
  await server.stop();
  await tearDownServer(folder);
});

/** The variables that `sandlot tls` tells a person to export for JavaScript. */
const exported = () => ({
  E2B_DOMAIN: DOMAIN,
  E2B_API_KEY: server.apiKey,
  NODE_EXTRA_CA_CERTS: trust.ca,
});

test("`sandlot tls` prints the variables of clients, and that names resolve for Node and Python", () => {
  expect(output).toMatch(/^look-up {6}Node finds .*127\.0\.0\.1.*, Python finds .*127\.0\.0\.1/m);
  for (const line of [
    `export E2B_DOMAIN=${DOMAIN}`,
    `export E2B_API_KEY=$(sudo cat ${folder}/api-key)`,
    `export NODE_EXTRA_CA_CERTS=${trust.ca}`,
    `export SSL_CERT_FILE=${trust.bundle}`,
    `export REQUESTS_CA_BUNDLE=${trust.bundle}`,
  ]) {
    expect(output).toContain(`  ${line}`);
  }
  expect(server.output()).toContain(`and https://api.${DOMAIN}\n`);
});

test.each(["node", "bun"] as const)("the SDK on %s works with the domain alone", async (runtime) => {
  await useWithDomain({ runtime, env: exported(), word: serving.sandboxId }, DOMAIN);
});

const cli = cliOfFile(
  () => server,
  () => ({ E2B_DOMAIN: DOMAIN, NODE_EXTRA_CA_CERTS: trust.ca }),
);

test("the command line works with the domain alone", async () => {
  const created = await cli.sandbox(["create", "base", "--detach"]);
  expect(created.exitCode).toBe(0);
  const id = /\bi[a-z0-9]{20}\b/.exec(created.stdout)?.[0] ?? "";
  expect(await cli.sandbox(["exec", id, "--", "echo", "by name"])).toMatchObject({ exitCode: 0, stdout: "by name\n" });
  expect((await cli.sandbox(["list"])).stdout).toContain(id);
  expect((await cli.sandbox(["kill", id])).exitCode).toBe(0);
});

test("Python and curl trust the certificate only with the authority's file", async () => {
  const program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).status)";
  const python = (env: Record<string, string>) =>
    attempt(["python3", "-c", program, `https://api.${DOMAIN}/health`], {
      env: { PATH: process.env.PATH ?? "", ...env },
    });
  expect(await python({ SSL_CERT_FILE: trust.bundle })).toMatchObject({ exitCode: 0, stdout: "200\n" });
  expect((await python({})).stderr).toContain("CERTIFICATE_VERIFY_FAILED");

  const curlOf = (url: string, args: string[]) =>
    attempt(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", url, ...args]);
  const curl = (...args: string[]) => curlOf(`https://api.${DOMAIN}/health`, args);
  expect((await curl("--cacert", trust.ca)).stdout).toBe("2 200");
  expect((await curl("--cacert", trust.ca, "--http1.1")).stdout).toBe("1.1 200");
  // HTTP/2 of sandbox URLs in detail: src/edge/http2-*.test.ts.
  const teapot = `https://${WEB}-${serving.sandboxId}.${DOMAIN}/status/418`;
  expect((await curlOf(teapot, ["--cacert", trust.ca])).stdout).toBe("2 418");
  expect((await curl("--cacert", trust.ca, "--tls-max", "1.1")).exitCode).not.toBe(0);
  expect((await curl()).stderr).toContain("certificate");
});

/** Which certificate a new connection is shown. */
async function shown(): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port: 443, servername: `api.${DOMAIN}`, rejectUnauthorized: false });
  try {
    await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    return socket.getPeerCertificate().fingerprint256;
  } finally {
    socket.destroy();
  }
}

test("a renewed certificate is served without a restart, and open connections go on", async () => {
  const tls = { ca: readFileSync(trust.ca, "utf8") };
  const ask = (path: string) => fetch(`https://${WEB}-${serving.sandboxId}.${DOMAIN}${path}`, { tls } as RequestInit);
  const events = (await ask("/events")).body?.pipeThrough(new TextDecoderStream()).getReader();
  expect((await events?.read())?.value).toContain("begin");
  const before = await shown();
  const soonItsEnd = Date.now() + 370 * 86_400_000;
  expect(await new LocalAuthority(folder).renew(DOMAIN, soonItsEnd)).toBe("certificate");
  await until("the new certificate is served", async () => (await shown()) !== before);
  const count = await (await ask("/next")).text();
  expect((await events?.read())?.value).toContain(`data: ${count}`);
  await events?.cancel();
});
