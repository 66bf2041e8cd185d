/**
 * The configuration files of deploy/ in front of a server, with real nginx, Caddy and HAProxy: only the domain,
 * ports and the certificate are replaced. In long runs only, because the proxies are packages of their own.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { until, untilTrue } from "../../../src/base/testing/until.ts";
import { run } from "../../../src/system/command.ts";
import { makeCertificate } from "../../../src/tls/testing/certificates.ts";
import { inDebianRoot } from "../../support/debian-root.ts";
import { startService } from "../../support/listening.ts";
import { useWithDomain } from "../../support/programs/sdk-with-domain.ts";
import { newDataFolder, removeServer, startServer, type TestServer } from "../../support/server.ts";

const DEPLOY = join(import.meta.dir, "../../../deploy");
const DOMAIN = "sandlot.localhost";
const WEB = 8000;
const SOCKET = 8100;
const UPLOAD_MB = 200;
const SETUP_MS = 180_000;
const START_MS = 30_000;

const PROXIES = {
  nginx: { file: "nginx/sandlot.conf", command: ["nginx", "-c", "/srv/nginx.conf", "-g", "daemon off;"] },
  Caddy: { file: "caddy/Caddyfile", command: ["caddy", "run", "--adapter", "caddyfile", "--config", "/srv/Caddyfile"] },
  HAProxy: { file: "haproxy/haproxy.cfg", command: ["haproxy", "-db", "-f", "/srv/haproxy.cfg"] },
};
type ProxyName = keyof typeof PROXIES;
const NAMES = Object.keys(PROXIES) as ProxyName[];

const folder = folderOfFile("proxies");
const certificates = { cert: "", key: "" };
const endings: (() => Promise<unknown>)[] = [];
/** Ports of the proxies. */
const ofServer: Record<string, number> = {};
const ofRecorder: Record<string, number> = {};
const recorder = new (class {
  readonly server: Server = createServer((request, response) => this.answer(request, response));
  received = 0;
  streams = 0;

  answer(request: IncomingMessage, response: ServerResponse): void {
    request.on("data", (piece: Uint8Array) => {
      this.received += piece.length;
    });
    if (request.url === "/stream") {
      this.streams += 1;
      response.on("close", () => {
        this.streams -= 1;
      });
      response.writeHead(200, { "Content-Type": "application/octet-stream" });
      response.write("first");
      return;
    }
    if (request.url === "/long-head") response.setHeader("X-Long", "x".repeat(40_000));
    request.on("end", () => response.end(JSON.stringify(request.headers)));
  }
})();

let server: TestServer;
let serving: Sandbox;

describe.skipIf(!LONG)("behind", () => {
  beforeAll(async () => {
    Object.assign(certificates, await makeCertificate(folder, { name: "proxy", domain: DOMAIN }));
    server = await startServer(newDataFolder("proxies"), { SANDLOT_TRUSTED_PROXIES: "127.0.0.1" });
    recorder.server.listen(0, "127.0.0.1");
    const recorderPort = (recorder.server.address() as AddressInfo).port;
    for (const name of NAMES) {
      ofServer[name] = await startProxy(name, Number(new URL(server.url).port));
      ofRecorder[name] = await startProxy(name, recorderPort);
    }
    serving = await Sandbox.create({ ...server.options, timeoutMs: 1_200_000 });
    await startService(serving, "web-service", WEB);
    await startService(serving, "websocket-echo", SOCKET, "127.0.0.1");
  }, SETUP_MS);
  afterAll(async () => {
    for (const end of endings) await end();
    recorder.server.close();
    await server.stop();
    await removeServer(server.dataFolder);
  });

  describe.each(NAMES)("%s", (name) => {
    const at = (path: string, host = "api") => `https://${host}.${DOMAIN}:${ofRecorder[name]}${path}`;
    const curl = (url: string, ...args: string[]) =>
      run(["curl", "-sS", "--fail", "--max-time", "100", "--cacert", certificates.cert, ...args, url], {
        timeoutMs: 120_000,
      });

    test("the SDK uses a sandbox", async () => {
      const domain = `${DOMAIN}:${ofServer[name]}`;
      const env = { E2B_DOMAIN: domain, E2B_API_KEY: server.apiKey, NODE_EXTRA_CA_CERTS: certificates.cert };
      await useWithDomain({ env, word: serving.sandboxId }, domain);
    });

    test("links to uploads begin with the proxy's address", async () => {
      const base = `https://api.${DOMAIN}:${ofServer[name]}`;
      const ask = ["--header", `X-API-Key: ${server.apiKey}`, "--header", "Content-Type: application/json"];
      const body = JSON.stringify({ name: `proxied-${name.toLowerCase()}` });
      const made = JSON.parse(await curl(`${base}/v3/templates`, ...ask, "--data", body)) as { templateID: string };
      const link = await curl(`${base}/templates/${made.templateID}/files/${"a".repeat(64)}`, ...ask);
      expect(new URL((JSON.parse(link) as { url: string }).url).origin).toBe(base);
    });

    test("HTTP/2 carries large uploads to a port of a sandbox", async () => {
      const url = `https://${WEB}-${serving.sandboxId}.${DOMAIN}:${ofServer[name]}/echo`;
      const file = join(folder, "large");
      await run(["truncate", "--size", `${UPLOAD_MB}M`, file]);
      const said = await curl(url, "--upload-file", file, "--write-out", "\n%{http_version}");
      const [echo = "", version] = said.split("\n");
      expect([JSON.parse(echo).length, version]).toEqual([UPLOAD_MB * 1024 * 1024, "2"]);
    });

    test("a request carries the proxy's own word about the client", async () => {
      const claims = ["For: 203.0.113.9", "Proto: http", "Host: forged.test", "Prefix: /forged"];
      const forged = claims.flatMap((claim) => ["--header", `X-Forwarded-${claim}`]);
      const headers = JSON.parse(await curl(at("/"), ...forged, "--header", "Forwarded: for=203.0.113.9"));
      expect(headers).toMatchObject({
        host: `api.${DOMAIN}:${ofRecorder[name]}`,
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-proto": "https",
      });
      expect(JSON.stringify(headers)).not.toContain("forged");
      expect(headers.forwarded).toBeUndefined();
    });

    test("as many headers, and as long heads, pass as Sandlot accepts", async () => {
      const many = Array.from({ length: 180 }, (_, at) => ["--header", `X-Of-Many-${at}: ${at}`]).flat();
      const headers = JSON.parse(await curl(at("/"), ...many, "--header", "X-Under_score: kept"));
      expect(headers["x-of-many-179"]).toBe("179");
      // As docs/install.md says.
      expect(headers["x-under_score"]).toBe(name === "Caddy" ? undefined : "kept");
      expect(JSON.parse(await curl(at("/"), "--header", `X-Long: ${"x".repeat(12_000)}`))["x-long"]).toHaveLength(
        12_000,
      );
      expect(await curl(at("/long-head"), "--dump-header", "-")).toContain("x".repeat(40_000));
    });

    test("a body is forwarded while it arrives, and a response before it ends", async () => {
      const before = recorder.received;
      const sent = request(at("/"), { method: "POST", ca: readFileSync(certificates.cert) });
      const answered = new Promise<IncomingMessage>((resolve, reject) =>
        sent.on("response", resolve).on("error", reject),
      );
      sent.write("piece");
      await untilTrue(() => recorder.received === before + 5);
      sent.end();
      expect((await answered).statusCode).toBe(200);

      const stream = await open(at("/stream"));
      expect(await firstPiece(stream)).toBe("first");
      await untilTrue(() => recorder.streams === 1);
      // The service learns that the client has left.
      stream.destroy();
      await untilTrue(() => recorder.streams === 0);
    });
  });
});

/** Resolves with the port that it listens on. */
async function startProxy(name: ProxyName, upstream: number): Promise<number> {
  const { file, command } = PROXIES[name];
  const [port, plain] = [freePort(), freePort()];
  const own = join(folder, `${name}-${upstream}`);
  mkdirSync(own);
  copyFileSync(certificates.cert, join(own, "fullchain.pem"));
  copyFileSync(certificates.key, join(own, "privkey.pem"));
  writeFileSync(join(own, "sandlot.pem"), `${readFileSync(certificates.cert)}${readFileSync(certificates.key)}`);
  // Caddy has its ports in options of its own.
  const caddy = `{\n\tadmin off\n\thttp_port ${plain}\n\thttps_port ${port}\n}\n`;
  const text = readFileSync(join(DEPLOY, file), "utf8")
    .replaceAll("sandboxes.example.com", DOMAIN)
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${upstream}`)
    .replaceAll(/(\/etc\/ssl\/sandlot|\/etc\/haproxy)\//g, "/srv/")
    .replaceAll(/(?<=listen |:|::)443\b/g, String(port));
  writeFileSync(join(own, file.replace(/.*\//, "")), name === "Caddy" ? caddy + text : text);
  const http = "events {}\npid /srv/nginx.pid;\nerror_log stderr;\nhttp { include /srv/sandlot.conf; }\n";
  writeFileSync(join(own, "nginx.conf"), http);
  const child = Bun.spawn(inDebianRoot(own, command), {
    env: { PATH: process.env.PATH ?? "", HOME: "/srv" },
    stderr: Bun.file(join(own, "log")),
  });
  endings.push(async () => {
    child.kill("SIGTERM");
    await child.exited;
  });
  const ping = { tls: { ca: readFileSync(certificates.cert, "utf8") } } as RequestInit;
  await until(
    () => `${name} listens; it said ${readFileSync(join(own, "log"), "utf8")}`,
    async () =>
      child.exitCode === null &&
      (await fetch(`https://api.${DOMAIN}:${port}/`, ping).then(
        () => true,
        () => false,
      )),
    START_MS,
  );
  return port;
}

async function open(url: string): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    request(url, { ca: readFileSync(certificates.cert) }, resolve)
      .on("error", reject)
      .end();
  });
}

async function firstPiece(stream: IncomingMessage): Promise<string> {
  return await new Promise((resolve) => stream.once("data", (piece: Uint8Array) => resolve(piece.toString())));
}
