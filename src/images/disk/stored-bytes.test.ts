/** Disk usage of stored items, measured from their folders. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { folderOfTest } from "../../base/testing/test-folder.ts";
import { storedBytes } from "./stored-bytes.ts";

const KIB = 1024;
const data = folderOfTest("stored");

function write(path: string, content: string | Uint8Array): void {
  const file = join(data, "disks", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

/** With what folders themselves take, which is little. */
function about(bytes: number, measured: number | undefined): boolean {
  return measured !== undefined && measured >= bytes && measured < bytes + 64 * KIB;
}

test("images record their size, checkpoints and layers are measured, unfinished ones are left out", async () => {
  const filled = new Uint8Array(256 * KIB).fill(1);
  write("images/image-1/image.json", JSON.stringify({ format: 1, bytes: 12_345 }));
  write("images/image-1/layer/etc/large", filled);
  write("images/image-2.unfinished/image.json", JSON.stringify({ bytes: 99 }));
  write("images/image-3/half", "");
  write("checkpoints/c1/disk.img", filled);
  write("checkpoints/c1/memory/pages-1.img", filled);
  write("checkpoints/.unfinished-c2/disk.img", filled);
  for (const key of ["k1", "k2"]) write(`layers/${key}/disk.img`, filled);
  const stored = await storedBytes(data);
  expect(stored?.images).toEqual(
    new Map([
      ["image-1", 12_345],
      ["image-3", 0],
    ]),
  );
  expect([...(stored?.checkpoints.keys() ?? [])]).toEqual(["c1"]);
  expect(about(512 * KIB, stored?.checkpoints.get("c1"))).toBe(true);
  expect(about(512 * KIB, stored?.layers)).toBe(true);
});

test("the use is zero before the first start, and unknown while the filesystem is not mounted", async () => {
  const nothing = { images: new Map(), checkpoints: new Map(), layers: 0 };
  expect(await storedBytes(data)).toEqual(nothing);
  mkdirSync(join(data, "disks"));
  writeFileSync(join(data, "disks.btrfs"), "");
  expect(await storedBytes(data)).toBeUndefined();
  mkdirSync(join(data, "disks/checkpoints"));
  expect(await storedBytes(data)).toEqual(nothing);
});
