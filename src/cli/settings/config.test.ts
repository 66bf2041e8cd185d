import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DEFINITIONS } from "../../../templates/definitions.ts";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { REQUEST_RATES_DEFAULT } from "../../control/budgets/request-rates.ts";
import { BUILD_LIMITS_DEFAULT } from "../../control/builds/build-limits.ts";
import { EDGE_CONNECTIONS_DEFAULT } from "../../edge/edge.ts";
import { parseListen } from "./addresses.ts";
import { loadConfig } from "./config.ts";
import { withSecret } from "./oidc-settings.ts";
import { effectiveSettings, SETTINGS, settingsBesideFile } from "./settings.ts";

const folder = folderOfFile("config");
let files = 0;

/** A config file with this content, named by the variable that names it. */
function file(content: string): Record<string, string> {
  const path = join(folder, `${++files}.json`);
  writeFileSync(path, content);
  return { SANDLOT_CONFIG: path };
}

const none = file("{}");

test("none is the same as no value for the settings whose default it is, also over the config file", () => {
  const optional = Object.entries(SETTINGS).filter(([, setting]) => setting.default === "none");
  const given = Object.fromEntries(optional.map(([variable]) => [variable, "none"]));
  expect(Object.keys(given)).toContain("SANDLOT_WITH");
  expect(loadConfig({ ...file('{ "with": "desktop" }'), ...given })).toEqual(loadConfig(none));
});

test("without settings the documented defaults apply", () => {
  expect(loadConfig(none)).toEqual({
    dataFolder: "/var/lib/sandlot",
    postgres: undefined,
    nodeName: expect.stringMatching(/^[\w.-]+$/),
    cacheFolder: "/var/cache/sandlot",
    definitions: DEFINITIONS,
    templates: [],
    listen: { hostname: "127.0.0.1", port: 3000 },
    addresses: {
      domain: "sandlot.localhost",
      tlsListen: { hostname: "127.0.0.1", port: 443 },
      certificate: undefined,
      trustedProxies: [],
      publicUrl: undefined,
      publicSandboxUrl: undefined,
    },
    oidc: undefined,
    secretsKeyFile: undefined,
    identityMetadata: [],
    runtime: "crun",
    runsc: undefined,
    readyPerKind: 2,
    readyMax: 128,
    resolver: undefined,
    privateRanges: [],
    sharedMemory: "off",
    sharedMemoryCpu: 40,
    memoryOvercommit: undefined,
    memoryReserve: 5,
    auditDays: 90,
    debianMirror: undefined,
    allowWebhooksInside: false,
    builds: BUILD_LIMITS_DEFAULT,
    buildBounds: { maxMs: 3_600_000, readyMaxMs: 600_000, logMaxBytes: 10 * 1024 ** 2 },
    requestRates: REQUEST_RATES_DEFAULT,
    connections: EDGE_CONNECTIONS_DEFAULT,
    quotas: {},
    volumes: { sizeMB: 10_240, sizeMaxMB: 102_400, perTeam: 100, mountsPerSandbox: 16 },
    localImages: {},
    registries: [],
    stepsFile: undefined,
    metrics: undefined,
  });
});

test("volume limits are whole numbers, and the default size is at most the maximum", () => {
  const { volumes } = loadConfig({ ...none, SANDLOT_VOLUME_SIZE_MAX_MB: "2048", SANDLOT_VOLUME_SIZE_MB: "1024" });
  expect(volumes).toMatchObject({ sizeMB: 1024, sizeMaxMB: 2048 });
  for (const [name, value] of [
    ["SANDLOT_VOLUME_SIZE_MB", "102401"],
    ["SANDLOT_VOLUME_SIZE_MB", "31"],
    ["SANDLOT_VOLUMES_PER_TEAM", "many"],
    ["SANDLOT_VOLUMES_PER_SANDBOX", "65"],
  ] as const) {
    expect(() => loadConfig({ ...none, [name]: value })).toThrow(value);
  }
});

test("shared memory is refused with an isolation runtime that cannot share it", () => {
  for (const sharedMemory of ["all", "default"]) {
    const settings = { ...none, SANDLOT_WALL: "runsc", SANDLOT_SHARED_MEMORY: sharedMemory };
    expect(() => loadConfig(settings)).toThrow("sharedMemory has no effect with SANDLOT_WALL=runsc");
  }
  expect(loadConfig({ ...none, SANDLOT_WALL: "runsc" }).sharedMemory).toBe("off");
});

test("the overcommit factor of memory is off or a number", () => {
  for (const [text, factor] of [
    ["off", undefined],
    ["1", 1],
    ["1.5", 1.5],
    ["0.1", 0.1],
  ] as const) {
    expect(loadConfig({ ...none, SANDLOT_MEMORY_OVERCOMMIT: text }).memoryOvercommit).toBe(factor);
  }
  for (const text of ["0", "-1", "on", "1e3", "101", "1,5"]) {
    const load = () => loadConfig({ ...none, SANDLOT_MEMORY_OVERCOMMIT: text });
    expect(load).toThrow(`memoryOvercommit must be off or a number from 0.1 to 100, not "${text}"`);
  }
});

test("the memory reserve is a whole number of percent, up to half of the memory", () => {
  expect(loadConfig({ ...none, SANDLOT_MEMORY_RESERVE: "0" }).memoryReserve).toBe(0);
  for (const text of ["51", "-1", "2.5", "off"]) {
    const load = () => loadConfig({ ...none, SANDLOT_MEMORY_RESERVE: text });
    expect(load).toThrow(`memoryReserve must be a whole number from 0 to 50, not "${text}"`);
  }
});

test("request rates are whole numbers of at least 1", () => {
  const rates = loadConfig({ ...none, SANDLOT_READS_PER_SECOND: "7", SANDLOT_CHANGES_PER_SECOND: "3" }).requestRates;
  expect(rates).toEqual({ ...REQUEST_RATES_DEFAULT, reads: 7, changes: 3 });
  for (const value of ["0", "none", "1.5", "1000001"]) {
    expect(() => loadConfig({ ...none, SANDLOT_FILES_PER_SECOND: value })).toThrow(`not "${value}"`);
  }
});

test("connection limits are at most what the server can carry", () => {
  const connections = (sandbox: string, team: string) =>
    loadConfig({ ...none, SANDLOT_CONNECTIONS_PER_SANDBOX: sandbox, SANDLOT_CONNECTIONS_PER_TEAM: team }).connections;
  expect(connections("7", "9")).toEqual({ perSandbox: 7, perTeam: 9 });
  expect(() => connections("0", "9")).toThrow('connectionsPerSandbox must be a whole number from 1 to 65336, not "0"');
  expect(() => connections("7", "65337")).toThrow("connectionsPerTeam must be");
});

test("per-second limits of a sandbox are whole numbers, or absent", () => {
  const quotas = (bandwidth: string, disk: string) =>
    loadConfig({ ...none, SANDLOT_BANDWIDTH_MBIT: bandwidth, SANDLOT_DISK_MB_PER_SECOND: disk }).quotas;
  expect(quotas("100", "20")).toEqual({ bandwidthMbit: 100, diskBytesPerSecond: 20 * 1024 ** 2 });
  expect(quotas("none", "none")).toEqual({});
  expect(() => quotas("0", "none")).toThrow('bandwidthMbit must be a whole number from 1 to 100000, not "0"');
  expect(() => quotas("none", "fast")).toThrow('diskMBPerSecond must be a whole number from 1 to 100000, not "fast"');
});

test("a variable overrides the file, and an empty one counts as unset", () => {
  const env = file('{"listen": "0.0.0.0:80", "ready": 5, "data": "/srv/a/"}');
  expect(loadConfig({ ...env, SANDLOT_LISTEN: "127.0.0.1:8080", SANDLOT_READY: "" })).toMatchObject({
    listen: { hostname: "127.0.0.1", port: 8080 },
    readyPerKind: 5,
    dataFolder: "/srv/a",
  });
});

test("the pool does not follow demand if READY is 0, unless READY_MAX is set", () => {
  const readyMax = (env: Record<string, string>) => loadConfig({ ...none, ...env }).readyMax;
  expect(readyMax({ SANDLOT_READY: "0" })).toBe(0);
  expect(readyMax({ SANDLOT_READY: "0", SANDLOT_READY_MAX: "5" })).toBe(5);
  expect(readyMax({ SANDLOT_READY: "3" })).toBe(128);
});

test("build limits are read in their units", () => {
  const env = { SANDLOT_BUILD_MINUTES: "2", SANDLOT_BUILD_LOG_MB: "3", SANDLOT_UPLOAD_MB: "4", SANDLOT_BUILDS: "5" };
  expect(loadConfig({ ...none, ...env })).toMatchObject({
    builds: { ...BUILD_LIMITS_DEFAULT, atOnce: 5, logMaxBytes: 3 * 1024 ** 2, uploadMaxBytes: 4 * 1024 ** 2 },
    buildBounds: { maxMs: 120_000, readyMaxMs: 600_000, logMaxBytes: 3 * 1024 ** 2 },
  });
});

test("images and registries are lists of words", () => {
  const env = { ...none, SANDLOT_IMAGES: "debian=layout:/srv/debian", SANDLOT_REGISTRIES: "a.example http://b:5000" };
  expect(loadConfig(env)).toMatchObject({
    localImages: { debian: { kind: "layout", place: "/srv/debian" } },
    registries: [
      { name: "a.example", tls: true },
      { name: "b:5000", tls: false },
    ],
  });
});

describe("an invalid setting is rejected with its value and a valid example", () => {
  test.each([
    [{ SANDLOT_PORT: "1" }, "unknown setting SANDLOT_PORT"],
    [file('{"prot": 1}'), 'unknown setting "prot"'],
    [file("{"), "not valid JSON"],
    [file("[]"), "one JSON object"],
    [file('{"ready": true}'), '"ready" must be a string or a number'],
    [{ SANDLOT_CONFIG: "/no/such/file" }, "/no/such/file, which does not exist"],
    [{ SANDLOT_DATA: "relative" }, 'not "relative"'],
    [{ SANDLOT_DATA: "/a,b" }, "without spaces, commas"],
    [{ SANDLOT_LISTEN: "3000" }, 'not "3000"'],
    [{ SANDLOT_LISTEN: "127.0.0.1:0" }, 'not "127.0.0.1:0"'],
    [{ SANDLOT_LISTEN: "127.0.0.1:65536" }, 'not "127.0.0.1:65536"'],
    [{ SANDLOT_WALL: "docker" }, 'crun or runsc, not "docker"'],
    [{ SANDLOT_RUNSC: "bin/runsc" }, "an absolute path"],
    [{ SANDLOT_READY: "-1" }, 'not "-1"'],
    [{ SANDLOT_READY: "65" }, "from 0 to 64"],
    [{ SANDLOT_READY: "two" }, 'not "two"'],
    [{ SANDLOT_READY_MAX: "1025" }, "from 0 to 1024"],
    [{ SANDLOT_BUILDS: "0" }, 'builds must be a whole number from 1 to 64, not "0"'],
    [{ SANDLOT_BUILDS_WAITING: "1001" }, "buildsWaiting must be a whole number from 1 to 1000"],
    [{ SANDLOT_BUILD_MINUTES: "1.5" }, "buildMinutes must be a whole number from 1 to 1440"],
    [{ SANDLOT_BUILD_READY_MINUTES: "0" }, "buildReadyMinutes must be a whole number from 1 to 1440"],
    [{ SANDLOT_BUILD_STEPS: "x" }, "buildSteps must be a whole number from 1 to 1000"],
    [{ SANDLOT_BUILD_LOG_MB: "101" }, "buildLogMB must be a whole number from 1 to 100"],
    [{ SANDLOT_UPLOAD_MB: "-5" }, "uploadMB must be a whole number from 1 to 65536"],
    [{ SANDLOT_IMAGES: "debian=/srv/debian" }, '"debian=/srv/debian" must look like'],
    [{ SANDLOT_REGISTRIES: "ftp://x" }, '"ftp://x" must look like'],
    [{ SANDLOT_RESOLVER: "dns.example" }, "IPv4 address"],
    [{ SANDLOT_RESOLVER: "1.2.3.400" }, "IPv4 address"],
  ] as [Record<string, string>, string][])("%j", (env, message) => {
    expect(() => loadConfig({ ...none, ...env })).toThrow(message);
  });
});

test("addresses of both families can be listened on", () => {
  expect(parseListen("listen", "[::1]:3000")).toEqual({ hostname: "::1", port: 3000 });
  expect(parseListen("listen", "sandlot.example:443")).toEqual({ hostname: "sandlot.example", port: 443 });
});

describe("addresses", () => {
  const files = { SANDLOT_TLS_CERT: "/etc/tls/cert.pem", SANDLOT_TLS_KEY: "/etc/tls/key.pem" };
  const addressesOf = (env: Record<string, string>) => loadConfig({ ...none, ...env }).addresses;

  test("a domain with its certificate and the proxies before it", () => {
    const env = {
      SANDLOT_DOMAIN: "Sandboxes.Example.COM",
      SANDLOT_TLS_LISTEN: "[::]:443",
      SANDLOT_TRUSTED_PROXIES: "10.0.0.1, 10.1.0.0/16 2001:db8::/32",
      SANDLOT_PUBLIC_URL: "HTTPS://API.example.com:443/e2b/",
      SANDLOT_PUBLIC_SANDBOX_URL: "https://boxes.example.com:8443/",
    };
    expect(addressesOf({ ...env, ...files })).toEqual({
      domain: "sandboxes.example.com",
      tlsListen: { hostname: "::", port: 443 },
      certificate: { cert: "/etc/tls/cert.pem", key: "/etc/tls/key.pem" },
      trustedProxies: ["10.0.0.1", "10.1.0.0/16", "2001:db8::/32"],
      publicUrl: "https://api.example.com/e2b",
      publicSandboxUrl: "https://boxes.example.com:8443",
    });
  });

  test.each([
    [{ SANDLOT_DOMAIN: "localhost" }, "domain must be"],
    [{ SANDLOT_DOMAIN: "*.example.com" }, '"*.example.com"'],
    [{ SANDLOT_DOMAIN: "https://example.com" }, "domain must be"],
    [{ SANDLOT_DOMAIN: "example.com:8443" }, "domain must be"],
    [{ SANDLOT_DOMAIN: "-a.example.com" }, "domain must be"],
    [{ SANDLOT_DOMAIN: "192.168.1.5" }, "domain must be"],
    [{ SANDLOT_DOMAIN: `${"a.".repeat(90)}com` }, "at most 180 characters"],
    [{ SANDLOT_TLS_LISTEN: "443" }, "tlsListen must look like"],
    [{ SANDLOT_TLS_CERT: "/c.pem" }, "tlsKey is missing"],
    [{ SANDLOT_TLS_KEY: "/k.pem" }, "tlsCert is missing"],
    [{ ...files }, "tlsCert needs domain"],
    [
      { ...files, SANDLOT_DOMAIN: "example.com", SANDLOT_TLS_KEY: "key.pem" },
      'tlsKey must be an absolute path, not "key.pem"',
    ],
    [{ SANDLOT_TRUSTED_PROXIES: "10.0.0.1 proxy.example.com" }, 'not "proxy.example.com"'],
    [{ SANDLOT_TRUSTED_PROXIES: "10.0.0.0/33" }, "trustedProxies must hold"],
    [{ SANDLOT_PUBLIC_URL: "api.example.com" }, "publicUrl must be a URL such as https://sandboxes.example.com"],
    [{ SANDLOT_PUBLIC_URL: "ftp://api.example.com" }, 'not "ftp://api.example.com"'],
    [{ SANDLOT_PUBLIC_URL: "https://a:b@example.com" }, "without credentials"],
    [{ SANDLOT_PUBLIC_URL: "https://example.com/?a=b" }, "query"],
    [{ SANDLOT_PUBLIC_URL: "https://example.com/a b" }, "publicUrl must be"],
    [{ SANDLOT_PUBLIC_URL: "https://example.com/../a" }, "publicUrl must be"],
    [{ SANDLOT_PUBLIC_SANDBOX_URL: "https://example.com/a" }, "without credentials, path"],
  ])("%j is refused", (env, message) => {
    expect(() => addressesOf(env as Record<string, string>)).toThrow(message);
  });
});

test("the factor of internal timeouts is a number from 1 to 100", () => {
  for (const good of ["1", "2.5", "100"]) loadConfig({ ...none, SANDLOT_TIME_FACTOR: good });
  for (const bad of ["0.5", "0", "101", "-1", "fast", "1e1"]) {
    expect(() => loadConfig({ ...none, SANDLOT_TIME_FACTOR: bad })).toThrow(
      `timeFactor must be a number from 1 to 100, not "${bad}"`,
    );
  }
});

test("settings beside the config file are those with another value", () => {
  const env = {
    ...file('{ "timeFactor": 20, "ready": 8 }'),
    SANDLOT_TIME_FACTOR: "20",
    SANDLOT_READY: "4",
    PATH: "/bin",
  };
  expect(settingsBesideFile(env)).toEqual(["SANDLOT_CONFIG", "SANDLOT_READY"]);
  expect(settingsBesideFile({ SANDLOT_DATA: "" })).toEqual([]);
});

describe("a store in Postgres", () => {
  const store = (url: string) => loadConfig({ ...none, SANDLOT_STORE: url }).postgres;

  test("has a user, a host and a database; the password may have any characters", () => {
    const url = "postgres://sandlot:p%40s%2Fs%23@db.example.com/rows?sslmode=verify-full";
    expect(store(url)).toEqual({ url, shown: "db.example.com:5432/rows", password: "p@s/s#", isExposed: false });
    expect(store("postgresql://u@[::1]:6543/x")?.shown).toBe("[::1]:6543/x");
    expect(loadConfig({ ...file('{ "store": "postgres://u@h/x", "node": "n-1" }') })).toMatchObject({
      postgres: { shown: "h:5432/x" },
      nodeName: "n-1",
    });
  });

  test.each([
    ["mysql://u:sesame@h/x", "must begin with postgres://"],
    ["postgres://u:ses/ame@h/x", "is no valid URL; write special characters of the password in percent form"],
    ["postgres://u:12/sesame@h/x", "has no user"],
    ["postgres://u:sesame#1@h/x", "is no valid URL"],
    ["postgres://u:sesame@h/x#y", "has a #"],
    ["postgres://:sesame@h/x", "has no user"],
    ["postgres://u:sesame@/x", "is no valid URL"],
    ["postgres://u:sesame@h", "must have the name of one database"],
    ["postgres://u:sesame@h/x/y", "must have the name of one database"],
    ["postgres://u:sesame%zz@h/x", "has a % that begins no percent form"],
    ["postgres://u:sesame@h/x?host=other", "may have no parameter but sslmode"],
    ["postgres://u:sesame@h/x?sslmode=never", "must have as sslmode disable, prefer"],
  ])("%s is rejected without its password", (url, problem) => {
    const refusal = expect(() => store(url));
    refusal.toThrow(`store ${problem}`);
    refusal.not.toThrow(/sesame|ame@/);
  });

  test("is exposed on a network without encryption", () => {
    const isExposed = (end: string) => store(`postgres://u:p@${end}`)?.isExposed;
    expect(["db/x", "db/x?sslmode=prefer", "10.0.0.1/x"].map(isExposed)).toEqual([true, true, true]);
    expect(["db/x?sslmode=require", "localhost/x", "127.0.0.1/x", "[::1]:5432/x"].map(isExposed)).toEqual(
      Array(4).fill(false),
    );
  });

  test("its password is not among the settings that are shown", () => {
    const shown = effectiveSettings({ ...none, SANDLOT_STORE: "postgres://u:ses@me/7@h/x" });
    expect(shown.SANDLOT_STORE).toEqual({ value: "postgres://u:…@h/x", isSet: true });
  });

  test("the name of the server is short and plain", () => {
    for (const name of ["a b", "ä", "x".repeat(64)]) {
      expect(() => loadConfig({ ...none, SANDLOT_NODE: name })).toThrow("node must be 1 to 63 letters");
    }
  });

  test("the name of the server is refused without Postgres, which alone has use for it", () => {
    expect(() => loadConfig({ ...none, SANDLOT_NODE: "first" })).toThrow(/store is not set\. FIX: set store/);
    expect(loadConfig({ ...none, SANDLOT_NODE: "first", SANDLOT_STORE: "postgres://u:p@h/x" }).nodeName).toBe("first");
  });
});

describe("an issuer of logins", () => {
  const ISSUER = { SANDLOT_OIDC_ISSUER: "https://id.example.com/realm", SANDLOT_OIDC_CLIENT_ID: "sandlot" };

  test("needs its URL and a client id; the rest is optional", () => {
    const least = { issuer: "https://id.example.com/realm", clientId: "sandlot", domains: [] };
    expect(loadConfig({ ...none, ...ISSUER }).oidc).toEqual({ ...least, clientSecretFile: undefined, team: undefined });
    const secret = join(folder, "secret");
    writeFileSync(secret, " of the client\n");
    const { oidc } = loadConfig({
      ...none,
      ...ISSUER,
      SANDLOT_OIDC_CLIENT_SECRET_FILE: secret,
      SANDLOT_OIDC_DOMAINS: "example.com, example.org",
      SANDLOT_OIDC_TEAM: "default",
    });
    const domains = ["example.com", "example.org"];
    expect(withSecret(oidc)).toEqual({ ...least, domains, team: "default", clientSecret: "of the client" });
    writeFileSync(secret, "");
    expect(() => withSecret(oidc)).toThrow("must hold the secret alone");
  });

  test.each([
    [{ SANDLOT_OIDC_CLIENT_ID: "sandlot" }, "oidcClientId needs oidcIssuer"],
    [{ SANDLOT_OIDC_ISSUER: "https://id.example.com" }, "oidcClientId is missing"],
    [{ ...ISSUER, SANDLOT_OIDC_ISSUER: "http://id.example.com" }, 'not "http://id.example.com"'],
    [{ ...ISSUER, SANDLOT_OIDC_ISSUER: "id.example.com" }, 'not "id.example.com"'],
    [{ ...ISSUER, SANDLOT_OIDC_CLIENT_SECRET_FILE: "secret" }, "must be an absolute path"],
    [{ ...ISSUER, SANDLOT_OIDC_DOMAINS: "ada@example.com" }, 'not "ada@example.com"'],
    [{ ...ISSUER, SANDLOT_OIDC_TEAM: "default" }, "oidcDomains is missing"],
  ] as const)("%j is refused: %s", (env, message) => {
    expect(() => loadConfig({ ...none, ...env })).toThrow(message);
  });
});

test("the key for secrets is a file, and metadata keys are a list", () => {
  const given = { ...none, SANDLOT_SECRETS_KEY_FILE: "/run/key", SANDLOT_IDENTITY_METADATA: "project, env" };
  expect(loadConfig(given)).toMatchObject({ secretsKeyFile: "/run/key", identityMetadata: ["project", "env"] });
  expect(() => loadConfig({ ...none, SANDLOT_SECRETS_KEY_FILE: "key" })).toThrow("secretsKeyFile");
  const many = Array.from({ length: 17 }, (_, nth) => nth).join();
  expect(() => loadConfig({ ...none, SANDLOT_IDENTITY_METADATA: many })).toThrow("at most 16 keys, got 17");
});
