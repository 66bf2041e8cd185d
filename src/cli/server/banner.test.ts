import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BannerAddresses, type BannerKey, banner } from "./banner.ts";

const SECRET = "e2b_0123";
const key: BannerKey = { secret: SECRET, file: "/var/lib/sandlot/api-key", isTerminal: true };
const plain: BannerAddresses = {
  listen: { hostname: "127.0.0.1", port: 3000 },
  domain: "sandlot.localhost",
  tls: undefined,
  publicUrl: undefined,
  publicSandboxUrl: undefined,
};
const lineOf = (given: BannerKey) =>
  banner(plain, given)
    .split("\n")
    .find((line) => line.includes("E2B_API_KEY"))
    ?.trim();

test("a terminal gets the key", () => {
  expect(lineOf(key)).toBe(`export E2B_API_KEY=${SECRET}`);
});

test("other output has the path of the key instead of the key", () => {
  const printed = banner({ ...plain, listen: { hostname: "::", port: 3000 } }, { ...key, isTerminal: false });
  expect(printed).not.toContain(SECRET);
  expect(printed).toContain("  export E2B_API_KEY=$(sudo cat /var/lib/sandlot/api-key)\n");
});

test("a removed key is not shown", () => {
  for (const isTerminal of [true, false]) {
    expect(lineOf({ ...key, secret: undefined, isTerminal })).toContain("sandlot keys create makes one");
  }
});

test("the line can be pasted, whatever the folder's name", () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot it's $(odd) "));
  try {
    const file = join(folder, "api-key");
    writeFileSync(file, `${SECRET}\n`);
    const line = lineOf({ ...key, file, isTerminal: false }) ?? "";
    const pasted = Bun.spawnSync(["sh", "-c", `sudo() { "$@"; }; ${line}; printf %s "$E2B_API_KEY"`]);
    expect(pasted.stdout.toString()).toBe(SECRET);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

const environmentOf = (printed: string) =>
  Object.fromEntries([...printed.matchAll(/^ {2}export (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));

test("every variable that a client needs is printed", () => {
  const url = "http://127.0.0.1:3000";
  expect(environmentOf(banner(plain, key))).toEqual({
    E2B_API_URL: url,
    E2B_SANDBOX_URL: url,
    E2B_VOLUME_API_URL: url,
    E2B_DOMAIN: "sandlot.localhost:3000",
    E2B_API_KEY: SECRET,
  });
});

test("with TLS, sandbox host names point to the TLS listener, and clients can use TLS throughout", () => {
  const trust = "/var/lib/sandlot-trust/ca.pem";
  const local = banner({ ...plain, tls: { domain: "sandlot.localhost:8443", trust } }, key);
  expect(local).toContain("Sandlot is ready at http://127.0.0.1:3000 and https://api.sandlot.localhost:8443\n");
  expect(environmentOf(local)).toMatchObject({ E2B_DOMAIN: "sandlot.localhost:8443", NODE_EXTRA_CA_CERTS: trust });
  expect(local).toContain("  unset E2B_API_URL E2B_SANDBOX_URL E2B_VOLUME_API_URL\n");
  const bought = banner({ ...plain, tls: { domain: "example.com", trust: undefined } }, key);
  expect(environmentOf(bought)).toMatchObject({ E2B_DOMAIN: "example.com" });
  expect(bought).not.toContain("NODE_EXTRA_CA_CERTS");
});

test("behind a proxy, the banner has the proxy's URLs", () => {
  const publicUrl = "https://api.example.com";
  const behind = (more: Partial<BannerAddresses>) => banner({ ...plain, publicUrl, ...more }, key);
  expect(behind({})).toContain("Sandlot is ready at http://127.0.0.1:3000 and https://api.example.com\n");
  expect(environmentOf(behind({}))).toMatchObject({
    E2B_API_URL: publicUrl,
    E2B_SANDBOX_URL: publicUrl,
    E2B_VOLUME_API_URL: publicUrl,
    E2B_DOMAIN: "example.com",
  });
  expect(environmentOf(behind({ publicSandboxUrl: "https://boxes.example.com:8443" }))).toMatchObject({
    E2B_API_URL: publicUrl,
    E2B_SANDBOX_URL: "https://boxes.example.com:8443",
    E2B_DOMAIN: "boxes.example.com:8443",
  });
});
