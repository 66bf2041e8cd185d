/** The files and values written for either cgroup layout. Tests on a real sandbox show the effect. */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderOfFile } from "../../base/testing/test-folder.ts";
import { limitThroughput } from "./disk-throughput.ts";

const folder = folderOfFile("throughput");

/** A tree with these files, empty. */
function treeOf(name: string, files: readonly string[]): string {
  const root = join(folder, name);
  for (const file of files) {
    mkdirSync(join(root, file, ".."), { recursive: true });
    writeFileSync(join(root, file), "");
  }
  return root;
}

const limit = (root: string) => limitThroughput("ours/box", "/dev/loop7", 5_000, { root, numbers: "7:7" });

test("with cgroup v2 both directions are one line", () => {
  const root = treeOf("v2", ["cgroup.controllers", "ours/box/io.max"]);
  limit(root);
  expect(readFileSync(join(root, "ours/box/io.max"), "utf8")).toBe("7:7 rbps=5000 wbps=5000");
});

test("with cgroup v1 each direction has a file", () => {
  const files = ["read", "write"].map((way) => `blkio/ours/box/blkio.throttle.${way}_bps_device`);
  const root = treeOf("v1", files);
  limit(root);
  for (const file of files) expect(readFileSync(join(root, file), "utf8")).toBe("7:7 5000");
});

test("on a kernel without I/O limits, the error names the file and the setting to remove", () => {
  expect(() => limit(treeOf("neither", ["cgroup.controllers"]))).toThrow(
    /io\.max does not exist, .*no SANDLOT_DISK_MB_PER_SECOND/,
  );
});
