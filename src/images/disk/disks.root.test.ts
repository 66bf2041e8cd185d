/** Copies of disks, really mounted. Sandboxes on them: tests/functional/host. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attempt, run } from "../../system/command.ts";
import { SHARED_IDS } from "../../system/id-range.ts";
import type { MountJob } from "../../system/mount/mount-job.ts";
import { isMountPoint } from "../../system/mount/mount-namespace.ts";
import { Mounts } from "../../system/mount/mounts.ts";
import { Disks } from "./disks.ts";

/** Simulates a disk that is full at that moment: the file to share blocks with is made, but shares none. */
class UnsharingMounts extends Mounts {
  sharesBlocks = true;
  words = 0;

  override async doAll(jobs: readonly MountJob[]): Promise<boolean[]> {
    this.words++;
    const [first] = jobs;
    if (first?.kind !== "reflink" || this.sharesBlocks) return await super.doAll(jobs);
    writeFileSync(first.target, "");
    return [false];
  }
}

test.each([true, false])("a copy has the content of the disk; blocks are shared: %p", async (sharesBlocks) => {
  // Not in memory, where disks of sandboxes cannot lie.
  const folder = mkdtempSync("/var/tmp/sandlot-disks-");
  const mounts = new UnsharingMounts();
  try {
    const disks = await Disks.open(folder, mounts);
    const places = ["lower", "first", "second"].map((name) => join(folder, name));
    for (const path of places) mkdirSync(path);
    const [lower = "", first = "", second = ""] = places;
    const lowers = [{ folder: lower, ids: "shifted" } as const];
    const original = await disks.attach("d01", 64, lowers, first, SHARED_IDS);
    writeFileSync(join(original.root, "kept"), "kept");
    await run(["sync", "-f", original.root]);
    mounts.sharesBlocks = sharesBlocks;
    const wordsBefore = mounts.words;
    mkdirSync(join(second, "besides"));
    const extraMounts = [{ kind: "tmpfs", target: join(second, "besides"), options: "size=1m" } as const];
    const copy = await disks.attachCopy("d02", disks.imageOf("d01"), lowers, second, SHARED_IDS, extraMounts);
    expect(existsSync(join(copy.root, "kept"))).toBe(true);
    expect(isMountPoint(join(second, "besides"))).toBe(true);
    // All that a boot mounts is said at once.
    if (sharesBlocks) expect(mounts.words - wordsBefore).toBe(1);
    mkdirSync(join(second, "left"));
    await mounts.do({ kind: "tmpfs", target: join(second, "left"), options: "size=1m" });
    await copy.release([join(second, "left")]);
    expect(["root", "disk", "besides", "left"].filter((name) => isMountPoint(join(second, name)))).toEqual([]);
    // A mount made by another component stays until the disk is released as well.
    mkdirSync(join(first, "volume"));
    await mounts.do({ kind: "tmpfs", target: join(first, "volume"), options: "size=1m" });
    await original.release([]);
    expect(["root", "disk", "volume"].filter((name) => isMountPoint(join(first, name)))).toEqual(["volume"]);
    await disks.releaseMounts(first);
    expect(isMountPoint(join(first, "volume"))).toBe(false);
  } finally {
    await attempt(["umount", "--lazy", join(folder, "disks")]);
    mounts.close();
    rmSync(folder, { recursive: true });
  }
});
