/**
 * A server with a certificate of an ACME authority: certbot or lego obtains a wildcard certificate by a DNS record and
 * renews it, and the server uses it without a restart or hook. The authority is Pebble, which is made for tests. In
 * long runs only.
 */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { freePort } from "../../../src/base/testing/free-port.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { folderOfFile } from "../../../src/base/testing/test-folder.ts";
import { attempt } from "../../../src/system/command.ts";
import { makeCertificate } from "../../../src/tls/testing/certificates.ts";
import { inDebianRoot } from "../../support/debian-root.ts";
import { startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const DOMAIN = "sandboxes.example.com";
const AUTHORITY = "authority.test";
const TEST_MS = 300_000;
const CLIENT_MS = 120_000;

interface AcmeClient {
  /** Arguments of every command. The folder of the test is its /srv. */
  all(authority: { url: string; dns: string }): string[];
  obtain: readonly string[];
  renew: readonly string[];
  env: Record<string, string>;
  /** Paths in the folder of the test. */
  cert: string;
  key: string;
}

const DOMAINS = [DOMAIN, `*.${DOMAIN}`];
const NAMES = DOMAINS.flatMap((name) => ["--domain", name]);
const CLIENTS: Readonly<Record<string, AcmeClient>> = {
  certbot: {
    all: ({ url }) => [
      "--non-interactive",
      "--agree-tos",
      "--register-unsafely-without-email",
      "--no-verify-ssl",
      `--server=${url}`,
      "--manual",
      "--preferred-challenges=dns",
      "--manual-auth-hook=/srv/hook",
      "--manual-cleanup-hook=/srv/hook",
      "--config-dir=/srv/certbot",
      "--work-dir=/srv/certbot",
      "--logs-dir=/srv/certbot",
    ],
    obtain: ["certonly", ...NAMES],
    renew: ["renew", "--force-renewal", "--no-random-sleep-on-renew"],
    env: {},
    cert: `certbot/live/${DOMAIN}/fullchain.pem`,
    key: `certbot/live/${DOMAIN}/privkey.pem`,
  },
  lego: {
    all: ({ url, dns }) => [
      "--path=/srv/lego",
      "--accept-tos",
      "--email=you@example.com",
      `--server=${url}`,
      "--dns=exec",
      "--dns.disable-cp",
      `--dns.resolvers=${dns}`,
      ...DOMAINS.map((name) => `--domains=${name}`),
    ],
    obtain: ["run"],
    renew: ["renew", "--days=9999", "--no-random-sleep"],
    env: {
      EXEC_PATH: "/srv/hook",
      // Seconds between its two records, and between its looks at them.
      EXEC_SEQUENCE_INTERVAL: "1",
      EXEC_POLLING_INTERVAL: "1",
      LEGO_CA_CERTIFICATES: "/srv/authority.cert.pem",
      LEGO_CA_SERVER_NAME: AUTHORITY,
      LEGO_DISABLE_CNAME_SUPPORT: "true",
    },
    cert: `lego/certificates/${DOMAIN}.crt`,
    key: `lego/certificates/${DOMAIN}.key`,
  },
};

const folder = folderOfFile("acme");
const dataFolderNamed = foldersOfFile();

test.skipIf(!LONG).each(Object.entries(CLIENTS))(
  "the server uses a certificate of %s, and its renewal",
  async (name, client) => {
    await using authority = await Authority.start();
    await authority.give(name, client.obtain);
    const port = freePort();
    const server = await startServer(dataFolderNamed(name), {
      SANDLOT_DOMAIN: DOMAIN,
      SANDLOT_TLS_LISTEN: `127.0.0.1:${port}`,
      SANDLOT_TLS_CERT: join(folder, client.cert),
      SANDLOT_TLS_KEY: join(folder, client.key),
    });
    const first = await shownAt(port);
    expect(first.issuer.CN).toStartWith("Pebble Intermediate");
    expect(first.subjectaltname?.split(", ").sort()).toEqual([`DNS:*.${DOMAIN}`, `DNS:${DOMAIN}`]);
    await authority.give(name, client.renew);
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
  readonly #dns: string;
  readonly #programs: Bun.Subprocess[] = [];

  private constructor(port: number, dnsPort: number) {
    this.#url = `https://127.0.0.1:${port}/dir`;
    this.#dns = `127.0.0.1:${dnsPort}`;
  }

  static async start(): Promise<Authority> {
    const [acme, management, dns, records] = [freePort(), freePort(), freePort(), freePort()];
    const { cert, key } = await makeCertificate(folder, { name: "authority", domain: AUTHORITY });
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
    // lego gives it arguments, certbot variables. Records that stay would make the next answer too long for Pebble.
    const hook = `#!/usr/bin/python3
import json, os, sys, urllib.request
if len(sys.argv) > 1:
    action, name, value = sys.argv[1:]
else:
    action = "cleanup" if "CERTBOT_AUTH_OUTPUT" in os.environ else "present"
    name, value = f"_acme-challenge.{os.environ['CERTBOT_DOMAIN']}.", os.environ["CERTBOT_VALIDATION"]
path = {"present": "set-txt", "cleanup": "clear-txt"}[action]
body = json.dumps({"host": name, "value": value}).encode()
urllib.request.urlopen(f"http://127.0.0.1:${records}/{path}", body, timeout=10)
`;
    writeFileSync(join(folder, "hook"), hook, { mode: 0o755 });
    const authority = new Authority(acme, dns);
    const off = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""];
    authority.#start("pebble-challtestsrv", "-dns01", authority.#dns, "-management", `127.0.0.1:${records}`, ...off);
    authority.#start("pebble", "-config", "/srv/pebble.json", "-dnsserver", authority.#dns);
    const tls = { ca: readFileSync(cert, "utf8"), checkServerIdentity: () => undefined };
    await until("the authority listens", async () => {
      const asked = [fetch(authority.#url, { tls } as RequestInit), fetch(`http://127.0.0.1:${records}`)];
      return (await Promise.allSettled(asked)).every(({ status }) => status === "fulfilled");
    });
    return authority;
  }

  #start(...argv: string[]): void {
    const settings = { PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0", PEBBLE_AUTHZREUSE: "0" };
    const env = { PATH: process.env.PATH ?? "", ...settings };
    const log = Bun.file(join(folder, `${argv[0]}.log`));
    this.#programs.push(Bun.spawn(inDebianRoot(folder, argv), { env, stdout: log, stderr: "ignore" }));
  }

  /** Runs a command of a client, which gets a certificate. */
  async give(name: string, command: readonly string[]): Promise<void> {
    const { all, env: own } = CLIENTS[name] as AcmeClient;
    const argv = inDebianRoot(folder, [name, ...all({ url: this.#url, dns: this.#dns }), ...command]);
    const env = { PATH: process.env.PATH ?? "", ...own };
    const { exitCode, stdout, stderr } = await attempt(argv, { timeoutMs: CLIENT_MS, env });
    if (exitCode !== 0) throw new Error(`${name} ${command[0]} ended with ${exitCode}:\n${stdout}${stderr}`);
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
