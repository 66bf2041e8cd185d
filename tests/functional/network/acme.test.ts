/**
 * A server with a certificate of an ACME authority: certbot obtains a wildcard certificate by a DNS record and renews
 * it, and the server uses it without a restart or hook. The authority is Pebble, which is made for tests. In long runs
 * only.
 */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { attempt } from "../../../src/system/command.ts";
import { makeCertificate } from "../../../src/tls/testing/certificates.ts";
import { inDebianRoot } from "../../support/debian-root.ts";
import { LONG } from "../../support/long.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const DOMAIN = "sandboxes.example.com";
const TEST_MS = 300_000;
const CERTBOT_MS = 120_000;

const folder = folderOfFile("acme");
const dataFolderNamed = foldersOfFile();

test.skipIf(!LONG)(
  "the server uses a certificate of certbot, and its renewal",
  async () => {
    await using authority = await Authority.start();
    await authority.certbot("certonly", ...["--domain", DOMAIN, "--domain", `*.${DOMAIN}`]);
    const live = join(folder, "letsencrypt/live", DOMAIN);
    const port = freePort();
    const server = await startServer(dataFolderNamed("acme"), {
      SANDLOT_DOMAIN: DOMAIN,
      SANDLOT_TLS_LISTEN: `127.0.0.1:${port}`,
      SANDLOT_TLS_CERT: join(live, "fullchain.pem"),
      SANDLOT_TLS_KEY: join(live, "privkey.pem"),
    });
    const first = await shownAt(port);
    expect(first.issuer.CN).toStartWith("Pebble Intermediate");
    expect(first.subjectaltname?.split(", ").sort()).toEqual([`DNS:*.${DOMAIN}`, `DNS:${DOMAIN}`]);
    await authority.certbot("renew", "--force-renewal", "--no-random-sleep-on-renew");
    await until("the renewed certificate is served", async () => {
      return (await shownAt(port)).fingerprint256 !== first.fingerprint256;
    });
    expect(await server.stop()).toBe(0);
  },
  TEST_MS,
);

/** Pebble, and the DNS server in which it looks for records. */
class Authority implements AsyncDisposable {
  readonly #url: string;
  readonly #programs: Bun.Subprocess[] = [];

  private constructor(port: number) {
    this.#url = `https://127.0.0.1:${port}/dir`;
  }

  static async start(): Promise<Authority> {
    const [acme, management, dns, records] = [freePort(), freePort(), freePort(), freePort()];
    const { cert, key } = await makeCertificate(folder, { name: "authority", domain: "authority.test" });
    mkdirSync(join(folder, "letsencrypt"));
    const inside = (path: string) => path.replace(folder, "/srv");
    const config = {
      listenAddress: `127.0.0.1:${acme}`,
      managementListenAddress: `127.0.0.1:${management}`,
      certificate: inside(cert),
      privateKey: inside(key),
      httpPort: 1,
      tlsPort: 1,
    };
    writeFileSync(join(folder, "pebble.json"), JSON.stringify({ pebble: config }));
    const hook = `#!/usr/bin/python3
import json, os, sys, urllib.request
name = f"_acme-challenge.{os.environ['CERTBOT_DOMAIN']}."
body = json.dumps({"host": name, "value": os.environ["CERTBOT_VALIDATION"]}).encode()
urllib.request.urlopen("http://127.0.0.1:${records}/set-txt", body, timeout=10)
`;
    writeFileSync(join(folder, "hook"), hook, { mode: 0o755 });
    const authority = new Authority(acme);
    const off = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""];
    authority.#start(
      "pebble-challtestsrv",
      "-dns01",
      `127.0.0.1:${dns}`,
      "-management",
      `127.0.0.1:${records}`,
      ...off,
    );
    authority.#start("pebble", "-config", "/srv/pebble.json", "-dnsserver", `127.0.0.1:${dns}`);
    const tls = { ca: readFileSync(cert, "utf8"), checkServerIdentity: () => undefined };
    await until("the authority listens", async () => {
      const asked = [fetch(authority.#url, { tls } as RequestInit), fetch(`http://127.0.0.1:${records}`)];
      return (await Promise.allSettled(asked)).every(({ status }) => status === "fulfilled");
    });
    return authority;
  }

  #start(...argv: string[]): void {
    const env = { PATH: process.env.PATH ?? "", PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0" };
    const log = Bun.file(join(folder, `${argv[0]}.log`));
    this.#programs.push(Bun.spawn(inDebianRoot(folder, argv), { env, stdout: log, stderr: "ignore" }));
  }

  async certbot(command: string, ...args: string[]): Promise<void> {
    const folders = ["config", "work", "logs"].map((name) => `--${name}-dir=/srv/letsencrypt`);
    const authority = ["--server", this.#url, "--no-verify-ssl", "--agree-tos", "--register-unsafely-without-email"];
    const proof = ["--manual", "--preferred-challenges=dns", "--manual-auth-hook=/srv/hook"];
    const argv = ["certbot", command, "--non-interactive", ...folders, ...authority, ...proof, ...args];
    const env = { PATH: process.env.PATH ?? "" };
    const { exitCode, stdout, stderr } = await attempt(inDebianRoot(folder, argv), { timeoutMs: CERTBOT_MS, env });
    if (exitCode !== 0) throw new Error(`certbot ${command} ended with ${exitCode}:\n${stdout}${stderr}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of this.#programs) {
      program.kill();
      await program.exited;
    }
  }
}

async function shownAt(port: number) {
  const socket = connect({ host: "127.0.0.1", port, servername: `api.${DOMAIN}`, rejectUnauthorized: false });
  try {
    await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    return socket.getPeerCertificate();
  } finally {
    socket.destroy();
  }
}
