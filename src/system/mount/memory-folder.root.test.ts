/** A folder kept in memory, on a machine whose /run may or may not be. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isInMemory, keepInMemory } from "./memory-folder.ts";
import { detachBelow, isMountPoint } from "./mount-namespace.ts";

let place: string;
beforeEach(() => {
  place = mkdtempSync("/var/tmp/sandlot-memory-");
});
afterEach(() => {
  detachBelow(place);
  rmSync(place, { recursive: true, force: true });
});

test("a new folder is in memory; only its owner can list it, others can pass through", () => {
  const folder = join(place, "new");
  keepInMemory(folder, true);
  expect(isInMemory(folder)).toBe(true);
  expect((statSync(folder).mode & 0o777).toString(8)).toBe("711");
});

test("a folder that is already in memory gets no mount", () => {
  const folder = join(place, "twice");
  keepInMemory(folder, true);
  writeFileSync(join(folder, "file"), "");
  keepInMemory(folder, true);
  expect(readdirSync(folder)).toEqual(["file"]);
  keepInMemory(join(folder, "below"), true);
  expect(isMountPoint(join(folder, "below"))).toBe(false);
});

test("the folder of an earlier server, whose sandboxes may run, is unchanged", () => {
  const folder = join(place, "old");
  mkdirSync(join(folder, "sandboxes"), { recursive: true });
  keepInMemory(folder, true);
  expect(readdirSync(folder)).toEqual(["sandboxes"]);
  expect(isMountPoint(folder)).toBe(false);
});

test("in a private mount namespace there is no mount", async () => {
  const folder = join(place, "apart");
  const program = `import { keepInMemory, isInMemory } from ${JSON.stringify(join(import.meta.dir, "memory-folder.ts"))};
    keepInMemory(${JSON.stringify(folder)}); console.log(isInMemory(${JSON.stringify(folder)}));`;
  const apart = Bun.spawn(["unshare", "--mount", process.execPath, "-e", program], { stdout: "pipe" });
  expect(await new Response(apart.stdout).text()).toBe("false\n");
});
