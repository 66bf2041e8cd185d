import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeIdentity } from "./disk-identity.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandlot-identity-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function identity(name: string): Record<string, string> {
  const etc = join(folder, name);
  writeIdentity(etc, process.getuid?.() ?? 0);
  const read = (file: string) => readFileSync(join(etc, file), "utf8");
  return Object.fromEntries(["machine-id", "resolv.conf", "hostname", "hosts"].map((file) => [file, read(file)]));
}

test("names and the name server fit the network of every sandbox, whatever the image says", () => {
  const { "resolv.conf": resolver, hostname, hosts } = identity("one");
  expect([resolver, hostname]).toEqual(["nameserver 169.254.0.22\n", "e2b.local\n"]);
  expect(hosts).toContain("169.254.0.21 e2b.local\n");
  // Everybody inside looks names up.
  expect(statSync(join(folder, "one/hosts")).mode & 0o777).toBe(0o644);
});

test("each has a machine id of its own", () => {
  const [one, other] = [identity("one"), identity("other")].map((files) => files["machine-id"]);
  expect(one).toMatch(/^[0-9a-f]{32}\n$/);
  expect(other).toMatch(/^[0-9a-f]{32}\n$/);
  expect(one).not.toBe(other);
});
