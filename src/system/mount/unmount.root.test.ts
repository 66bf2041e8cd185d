/** Unmounting while a program holds a file of the filesystem. */
import { expect, test } from "bun:test";
import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { run } from "../command.ts";
import { isMountPoint } from "./mount-namespace.ts";
import { unmount } from "./unmount.ts";

const folder = folderOfFile("unmount");

async function mountedFolder(name: string): Promise<string> {
  const path = join(folder, name);
  mkdirSync(path);
  await run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path]);
  return path;
}

test("a filesystem whose last file is closed meanwhile is unmounted", async () => {
  const path = await mountedFolder("closed-later");
  const file = openSync(join(path, "file"), "w");
  await expect(unmount(path, {}, 0)).rejects.toThrow("busy");
  const unmounted = unmount(path);
  closeSync(file);
  await unmounted;
  expect(isMountPoint(path)).toBe(false);
  expect(existsSync(join(path, "file"))).toBe(false);
});

test("a folder that is no mount point fails at once", async () => {
  await expect(unmount(folder, {}, 60_000)).rejects.toThrow("not mounted");
});
