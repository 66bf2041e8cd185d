/** Tests only the decision, on folders that stand for a system. Other tests let real sandboxes remove theirs. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { Fault } from "../../contract/fault.ts";
import { keptFolders, requireRemovable } from "./running-system.ts";

const root = realpathSync(mkdtempSync(`${tmpdir()}/sandlot-system-`));
afterAll(() => rmSync(root, { recursive: true }));
mkdirSync(`${root}/run/system/inner`, { recursive: true });
mkdirSync(`${root}/run/system-of-another`);
mkdirSync(`${root}/free/folder`, { recursive: true });
writeFileSync(`${root}/run/system/file`, "");
symlinkSync("..", `${root}/run/system/up`);
symlinkSync(`${root}/run`, `${root}/free/link`);
symlinkSync("/", `${root}/free/root`);
const kept = [`${root}/run/system`];

async function decided(path: string): Promise<string> {
  try {
    await requireRemovable(path, kept);
    return "removable";
  } catch (thrown) {
    const fault = Fault.from(thrown);
    return `${fault.status} ${fault.errorCode}`;
  }
}

describe("removal is rejected", () => {
  test.each([
    "/",
    "//",
    "/.",
    "/tmp/..",
    root,
    `${root}/run`,
    `${root}/run/`,
    `${root}/run/system`,
    `${root}//run/./system/.`,
    `${root}/free/../run`,
    `${root}/run/system/inner/..`,
    `${root}/free/link/`,
    `${root}/free/link/.`,
    `${root}/free/link/system`,
    `${root}/free/root/`,
    `${root}/free/root/.`,
    `${root}/run/system/up/system`,
  ])("%s", async (path) => {
    expect(await decided(path)).toBe("400 invalid_argument");
  });
});

describe("removal is allowed", () => {
  test.each([
    `${root}/free`,
    `${root}/free/folder/`,
    `${root}/free/link`,
    `${root}/free/root`,
    `${root}/run/system-of-another`,
    `${root}/run/system/file`,
    `${root}/run/system/inner`,
    `${root}/run/system/up`,
  ])("%s", async (path) => {
    expect(await decided(path)).toBe("removable");
  });
});

test("the running system is what a sandbox needs, and all mounts", async () => {
  expect(await keptFolders()).toEqual(
    expect.arrayContaining(["/", "/proc", "/sys", "/dev", "/.sandlot", "/run/sandlot"]),
  );
});
