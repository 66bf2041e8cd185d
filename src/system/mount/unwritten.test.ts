import { expect, test } from "bun:test";
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { unwrittenBytes } from "./unwritten.ts";

const BYTES = 256 * 1024;
/** Not on a tmpfs, which never writes to a disk. */
const FOLDER = "/var/tmp";
const [major = 0, minor = 0] = release().split(".").map(Number);
const isTold = major > 6 || (major === 6 && minor >= 5);

test.skipIf(!isTold)("written bytes count until they are on the disk", () => {
  const folder = mkdtempSync(join(FOLDER, "sandlot-unwritten-"));
  const file = openSync(join(folder, "file"), "w");
  try {
    expect(unwrittenBytes(file)).toBe(0);
    writeSync(file, Buffer.alloc(BYTES, 1));
    expect(unwrittenBytes(file)).toBe(BYTES);
    fsyncSync(file);
    expect(unwrittenBytes(file)).toBe(0);
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
});

test("the count is unknown for anything but a file", () => {
  expect(unwrittenBytes(-1)).toBeUndefined();
});
