import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BannerAddresses, type BannerKey, banner } from "./banner.ts";

const SECRET = "e2b_0123";
const key: BannerKey = { secret: SECRET, file: "/var/lib/sandlot/api-key", isTerminal: true };
const plain: BannerAddresses = {
  listen: { hostname: "127.0.0.1", port: 3000 },
  domain: undefined,
  trust: undefined,
};
const lineOf = (given: BannerKey) =>
  banner(plain, given)
    .split("\n")
    .find((line) => line.includes("E2B_API_KEY"))
    ?.trim();

test("a person at a terminal is shown the key", () => {
  expect(lineOf(key)).toBe(`export E2B_API_KEY=${SECRET}`);
});

test("what goes elsewhere holds no key, but where it is", () => {
  const printed = banner({ ...plain, listen: { hostname: "::", port: 3000 } }, { ...key, isTerminal: false });
  expect(printed).not.toContain(SECRET);
  expect(printed).toContain("  export E2B_API_KEY=$(sudo cat /var/lib/sandlot/api-key)\n");
});

test("a key that was put away is shown nowhere", () => {
  for (const isTerminal of [true, false]) {
    expect(lineOf({ ...key, secret: undefined, isTerminal })).toContain("sandlot keys create makes one");
  }
});

test("the line can be pasted, whatever the folder is called", () => {
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

test("with TLS, there is a domain to export, and the certificate to trust if it is our own", () => {
  expect(banner(plain, key)).not.toContain("E2B_DOMAIN");
  const local = banner({ ...plain, domain: "sandlot.localhost:8443", trust: "/var/lib/sandlot-trust/ca.pem" }, key);
  expect(local).toContain("Sandlot is ready at http://127.0.0.1:3000 and https://api.sandlot.localhost:8443\n");
  expect(local).toContain("  export E2B_DOMAIN=sandlot.localhost:8443\n");
  expect(local).toContain("  export NODE_EXTRA_CA_CERTS=/var/lib/sandlot-trust/ca.pem\n");
  const bought = banner({ ...plain, domain: "example.com" }, key);
  expect(bought).toContain("  export E2B_DOMAIN=example.com\n");
  expect(bought).not.toContain("NODE_EXTRA_CA_CERTS");
});
