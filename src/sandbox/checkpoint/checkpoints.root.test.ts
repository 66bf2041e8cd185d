/** Checkpoints on a real filesystem: how they are written, found and removed. */
import { expect, test } from "bun:test";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { untilTrue } from "../../base/testing/until.ts";
import { run } from "../../system/command.ts";
import { Checkpoints } from "./checkpoints.ts";
import { MANIFEST_FORMAT, type Manifest } from "./manifest.ts";

const folder = folderOfFile("checkpoints");

// Guards against EBUSY at the removal of a checkpoint that is being restored.
test("a checkpoint that is removed during its restore is deleted after it", async () => {
  const checkpoints = new Checkpoints(join(folder, "all"));
  const { memory, path } = checkpoints.begin("one");
  const [file, other] = [join(memory, "userns-10.img"), join(folder, "other")];
  for (const each of [file, other]) writeFileSync(each, "");
  await run(["mount", "--bind", other, file]);
  const removal = checkpoints.remove("one");
  let isOver = false;
  void removal.then(() => {
    isOver = true;
  });
  await untilTrue(() => readdirSync(path).join() === "memory");
  expect(isOver).toBe(false);
  await run(["umount", file]);
  await removal;
  expect(readdirSync(checkpoints.folder)).toEqual([]);
});

test("a checkpoint is not found from the begin of its removal on", async () => {
  const checkpoints = new Checkpoints(join(folder, "going"));
  const draft = checkpoints.begin("one");
  checkpoints.describe(draft, { format: MANIFEST_FORMAT } as Manifest);
  await checkpoints.commit("one", draft, false);
  expect(checkpoints.has("one")).toBe(true);
  const removal = checkpoints.remove("one");
  expect(checkpoints.has("one")).toBe(false);
  expect(() => checkpoints.read("one")).toThrow('there is no checkpoint "one" on this machine');
  await removal;
  expect(checkpoints.has("one")).toBe(false);
});

test("a checkpoint without its disk, or with a damaged manifest, is refused with the reason", async () => {
  const checkpoints = new Checkpoints(join(folder, "damaged"));
  const draft = checkpoints.begin("one");
  checkpoints.describe(draft, { format: MANIFEST_FORMAT } as Manifest);
  await checkpoints.commit("one", draft, false);
  const { disk, manifest } = checkpoints.folderOf("one");
  expect(() => checkpoints.read("one")).toThrow('the disk of checkpoint "one" is missing on this machine');
  writeFileSync(disk, "");
  expect(checkpoints.read("one").manifest).toEqual({ format: MANIFEST_FORMAT } as Manifest);
  writeFileSync(manifest, '{"format":');
  expect(() => checkpoints.read("one")).toThrow('the manifest of checkpoint "one" is damaged on disk');
});
