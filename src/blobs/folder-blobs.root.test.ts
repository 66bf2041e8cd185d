/** A disk becomes full in the middle of a put: the caller gets an error, and the space is free again. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { FolderBlobs } from "./folder-blobs.ts";

const SMALL_BYTES = 256 * 1024;
const folder = mkdtempSync(join(tmpdir(), "sandlot-full-"));
beforeAll(() => {
  const mounted = Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${SMALL_BYTES}`, "tmpfs", folder]);
  if (!mounted.success) throw new Error(mounted.stderr.toString());
});
afterAll(() => {
  Bun.spawnSync(["umount", folder]);
  rmSync(folder, { recursive: true, force: true });
});

const streamOf = (bytes: number) => new Blob([new Uint8Array(bytes)]).stream();

test("a full disk is a 507, and nothing of the blob is left", async () => {
  const nothingKeptFree = 0;
  const blobs = await FolderBlobs.open(folder, systemClock, nothingKeptFree);
  await expect(blobs.put("a", streamOf(2 * SMALL_BYTES), 10 * SMALL_BYTES)).rejects.toMatchObject({ status: 507 });
  expect(readdirSync(join(folder, "incoming"))).toEqual([]);
  expect(await blobs.find("a")).toBeUndefined();
  expect(await blobs.put("a", streamOf(SMALL_BYTES / 4), SMALL_BYTES)).toBe(SMALL_BYTES / 4);
});
