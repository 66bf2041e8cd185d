/** Lasting memory in a checkpoint image; tests/security/lasting-memory.test.ts uses the real kernel. */
import { expect, test } from "bun:test";
import { MEMORY_MAX_MB, MEMORY_MIN_MB } from "../../../../contract/management/limits.ts";
import { areIpcBoundsOwn, ipcBounds, tmpfsBounds } from "./lasting-memory.ts";

const PAGE = 4096;
const MIB = 1024 * 1024;

test("an ordinary sandbox has these bounds", () => {
  expect(tmpfsBounds(1024)).toEqual({
    "/dev": ["size=1m", "nr_inodes=1024"],
    "/dev/shm": ["size=256m", "nr_inodes=65536"],
    "/run": ["size=64m", "nr_inodes=32768"],
  });
  expect(ipcBounds(1024, PAGE)).toEqual({
    "kernel.shmall": "32768",
    "kernel.msgmni": "64",
    "kernel.sem": "32000 262144 500 1024",
  });
});

test.each([MEMORY_MIN_MB, 256, 1024, MEMORY_MAX_MB])("with %p MB, enough memory is left to processes", (memoryMB) => {
  const sizes = Object.values(tmpfsBounds(memoryMB)).map((options) => ({
    content: Number(/^size=(\d+)m$/.exec(options[0] ?? "")?.[1]) * MIB,
    inodes: Number(/^nr_inodes=(\d+)$/.exec(options[1] ?? "")?.[1]) * 1024,
  }));
  const files = sizes.reduce((sum, { content, inodes }) => sum + content + inodes, 0);
  const ipc = ipcBounds(memoryMB, PAGE);
  const segments = Number(ipc["kernel.shmall"]) * PAGE;
  const others = Number(ipc["kernel.msgmni"]) * MIB + Number(ipc["kernel.sem"]?.split(" ")[1]) * 128;
  expect(files + segments + others).toBeLessThan((memoryMB * MIB * 2) / 3);
  // The kernel does not take an empty bound for no bound.
  expect(Object.values(ipc).filter((value) => Number.parseInt(value, 10) < 1)).toEqual([]);
});

test("with larger pages the bounds have fewer pages", () => {
  expect(ipcBounds(1024, 65_536)["kernel.shmall"]).toBe("2048");
});

test.each([
  ["5.15.0-91-generic", false],
  ["6.1.0-18-amd64", false],
  ["6.9.0", true],
  ["6.18.44", true],
  ["7.0.1-rc1", true],
])("Linux %s: whether a sandbox's root may change the bounds", (release, own) => {
  expect(areIpcBoundsOwn(release)).toBe(own);
});
