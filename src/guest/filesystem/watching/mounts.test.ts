/** Which filesystems the watcher rejects or leaves out. */
import { expect, test } from "bun:test";
import { mountsLeftOut, networkTypeName } from "./mounts.ts";

test.each([
  ["NFS", 0x6969],
  ["CIFS", 0xff534d42],
  ["CIFS", 0xff534d42 | 0],
  ["SMB", 0x517b],
  ["SMB2", 0xfe534d42],
  ["FUSE", 0x65735546],
])("%s is a network file system", (name, type) => {
  expect(networkTypeName(type)).toBe(name);
});

test.each([
  ["ext4", 0xef53],
  ["tmpfs", 0x01021994],
  ["overlay", 0x794c7630],
  ["btrfs", 0x9123683e],
])("%s is not a network file system", (_, type) => {
  expect(networkTypeName(type)).toBeUndefined();
});

test("a watch of everything leaves out filesystems without events", async () => {
  expect(await mountsLeftOut("/", true)).toContain("/proc");
  expect(await mountsLeftOut("/usr", true)).toEqual(new Set());
});
