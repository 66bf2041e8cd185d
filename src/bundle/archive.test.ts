import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfTest } from "../base/testing/test-folder.ts";
import { run } from "../system/command.ts";
import { readManifest, unpackBundle, writeBundle } from "./archive.ts";
import { isCached, packFolders, unpackFolders } from "./cached-folders.ts";
import type { BundleTarget } from "./manifest.ts";

const HERE: BundleTarget = { sandlot: "1.2.3", architecture: "x64", system: "debian 13" };
const folder = folderOfTest("bundle");
const file = join(folder, "all.bundle");
const parts = join(folder, "parts");

test("a bundle unpacks to the files that it was made of", async () => {
  await make();
  const manifest = await readManifest(file);
  expect(manifest).toMatchObject(HERE);
  expect(Object.keys(manifest.files)).toEqual(["cache/tools-5.tar.gz", "packages/one_1%3a2_all.deb"]);
  await unpackBundle(file, manifest, join(folder, "unpacked"));
  expect(readFileSync(join(folder, "unpacked/packages/one_1%3a2_all.deb"), "utf8")).toBe("a package");
  expect(existsSync(`${file}.unfinished`)).toBe(false);
});

test("a bundle with a changed byte is refused, and the file in it is named", async () => {
  await make();
  const bytes = readFileSync(file);
  bytes[bytes.indexOf("a package")] = 0x41;
  writeFileSync(file, bytes);
  expect(await refusal()).toContain("packages/one_1%3a2_all.deb does not match its digest");
});

test("a bundle that was not copied to its end is refused", async () => {
  await make();
  truncateSync(file, readFileSync(file).indexOf("a package"));
  expect(await refusal()).toContain(`the bundle ${file} is damaged`);
});

test("a bundle without one of its files is refused, and the file is named", async () => {
  await make();
  await run(["tar", "--delete", "--file", file, "cache/tools-5.tar.gz"]);
  expect(await refusal()).toContain("cache/tools-5.tar.gz is missing");
});

test("files of other kinds are refused", async () => {
  writeFileSync(file, "no archive");
  expect(await refusal()).toContain(`${file} is not a bundle`);
  await run(["tar", "--create", "--file", file, "--directory", folder, "--files-from", "/dev/null"]);
  expect(await refusal()).toContain(`${file} is not a bundle`);
  expect(await refusal(join(folder, "missing"))).toBe(`there is no bundle ${join(folder, "missing")}`);
  expect(await refusal(folder)).toBe(`there is no bundle ${folder}`);
});

test("folders of the cache come back with the files beside images, and those that exist stay", async () => {
  const from = join(folder, "from");
  const to = join(folder, "to");
  const names = ["tools-5", "images/base-3", "images/top-1"];
  for (const name of names) {
    mkdirSync(join(from, name), { recursive: true });
    writeFileSync(join(from, name, "file"), name, { mode: 0o640 });
  }
  writeFileSync(join(from, "images/top-1.below"), "base-3");
  await packFolders(from, names, parts, () => undefined);
  mkdirSync(join(to, "tools-5"), { recursive: true });
  await unpackFolders(parts, to, names, () => undefined);
  expect(names.map((name) => isCached(to, name))).toEqual([true, true, true]);
  expect(existsSync(join(to, "tools-5/file"))).toBe(false);
  expect(readFileSync(join(to, "images/top-1/file"), "utf8")).toBe("images/top-1");
  expect(readFileSync(join(to, "images/top-1.below"), "utf8")).toBe("base-3");
  // The server removes old images only if they have this file.
  expect(existsSync(join(to, "images/top-1.chosen"))).toBe(true);
});

async function make(): Promise<void> {
  mkdirSync(join(folder, "cache/tools-5"), { recursive: true });
  writeFileSync(join(folder, "cache/tools-5/crun"), "a program");
  await packFolders(join(folder, "cache"), ["tools-5"], join(parts, "cache"), () => undefined);
  mkdirSync(join(parts, "packages"));
  writeFileSync(join(parts, "packages/one_1%3a2_all.deb"), "a package");
  await writeBundle(file, HERE, parts);
}

/** The message with which the bundle is refused. */
async function refusal(path = file): Promise<string> {
  try {
    await unpackBundle(path, await readManifest(path), join(folder, "unpacked"));
  } catch (thrown) {
    return (thrown as Error).message;
  }
  return "none";
}
