import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BannerKey, banner } from "./banner.ts";

const SECRET = "e2b_0123";
const key: BannerKey = { secret: SECRET, file: "/var/lib/sandlot/api-key", isTerminal: true };
const lineOf = (given: BannerKey) =>
  banner({ hostname: "127.0.0.1", port: 3000 }, given)
    .split("\n")
    .find((line) => line.includes("E2B_API_KEY"))
    ?.trim();

test("a person at a terminal is shown the key", () => {
  expect(lineOf(key)).toBe(`export E2B_API_KEY=${SECRET}`);
});

test("what goes elsewhere holds no key, but where it is", () => {
  const printed = banner({ hostname: "::", port: 3000 }, { ...key, isTerminal: false });
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
