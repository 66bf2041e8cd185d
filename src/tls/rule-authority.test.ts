import { afterAll, beforeAll, expect, test } from "bun:test";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RuleAuthority } from "./rule-authority.ts";

let folder: string;
let authority: RuleAuthority;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rule-authority-"));
  authority = await RuleAuthority.open(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a certificate is for its name, of the authority, and for the key of this start", async () => {
  const name = `${"a".repeat(60)}.${"b".repeat(60)}.example.com`;
  const leaf = new X509Certificate(await authority.certificateFor(name));
  const issuer = new X509Certificate(authority.certificatePem);
  expect([leaf.checkHost(name), leaf.checkHost("example.com"), leaf.ca]).toEqual([name, undefined, false]);
  expect([leaf.verify(issuer.publicKey), leaf.checkIssued(issuer), issuer.ca]).toEqual([true, true, true]);
  expect(leaf.checkPrivateKey(createPrivateKey(authority.leafKeyPem))).toBe(true);
  expect(Date.parse(leaf.validTo) - Date.now()).toBeLessThan(31 * 86_400_000);
});

test("the authority outlives a restart, its key is only readable for its owner, and the leaf key is new", async () => {
  const again = await RuleAuthority.open(folder);
  expect(again.certificatePem).toBe(authority.certificatePem);
  expect(again.leafKeyPem).not.toBe(authority.leafKeyPem);
  const kept = join(folder, "rules");
  const modes = [kept, ...readdirSync(kept).map((name) => join(kept, name))].map((path) => statSync(path).mode & 0o077);
  expect(modes.every((mode) => mode === 0)).toBe(true);
  const files = readdirSync(kept).map((name) => readFileSync(join(kept, name), "utf8"));
  expect(files.some((text) => text.includes(again.leafKeyPem))).toBe(false);
  authority = again;
});

test("an authority that soon ends is replaced", async () => {
  const later = await RuleAuthority.open(folder, Date.now() + 3_600 * 86_400_000);
  expect(later.certificatePem).not.toBe(authority.certificatePem);
});

test("only host names get a certificate", async () => {
  for (const name of ["", "1.2.3.4", "a.test, DNS:b.test", "a.test\nbasicConstraints = CA:TRUE", "*.test"]) {
    expect(authority.certificateFor(name)).rejects.toThrow("is not a host name");
  }
});
