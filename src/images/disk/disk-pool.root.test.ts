/** Making the filesystem for disks where the data folder's own cannot share blocks. */
import { expect, spyOn, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attempt, run } from "../../system/command.ts";
import { deviceOf } from "../../system/mount/loop-devices.ts";
import { Mounts } from "../../system/mount/mounts.ts";
import { BTRFS, openDiskPool } from "./disk-pool.ts";

/** As on ext4. */
class UnsharingMounts extends Mounts {
  override async do(job: Parameters<Mounts["do"]>[0]): Promise<boolean> {
    return job.kind === "reflink" ? false : await super.do(job);
  }
}

/** The device's last user releases it just when it is to be mounted; `other` may take it. */
class LateMounts extends UnsharingMounts {
  constructor(readonly other: string | undefined) {
    super();
  }

  override async do(job: Parameters<Mounts["do"]>[0]): Promise<boolean> {
    if (job.kind === "device") {
      await run(["losetup", "--detach", job.device]);
      if (this.other !== undefined) await run(["losetup", job.device, this.other]);
    }
    return await super.do(job);
  }
}

// Guards against "failed with EINVAL" at a start or stop right behind a killed server, and a device that has become
// another's, with its disks.
test.each(["nobody", "another"])("a pool is mounted again if its device is lost to %s", async (whom) => {
  const folder = mkdtempSync("/var/tmp/sandlot-pool-");
  const other = join(folder, "other");
  const pool = join(folder, "disks");
  try {
    await openDiskPool(folder, new UnsharingMounts());
    writeFileSync(join(pool, "mine"), "");
    await run(["umount", pool]);
    await run(["losetup", "--find", join(folder, "disks.btrfs")]);
    await run(["truncate", "--size=200M", other]);
    await run(["mkfs.btrfs", "--quiet", other]);
    await openDiskPool(folder, new LateMounts(whom === "another" ? other : undefined));
    expect(existsSync(join(pool, "mine"))).toBe(true);
  } finally {
    await attempt(["umount", "--lazy", pool]);
    for (const file of [other, join(folder, "disks.btrfs")]) {
      const device = deviceOf(file);
      if (device !== undefined) await attempt(["losetup", "--detach", device]);
    }
    rmSync(folder, { recursive: true, force: true });
  }
});

// Guards against "cannot check mount status" at a start beside others that end, for a device that has gone.
test("the pool is made in a private mount namespace, where no other mount changes meanwhile", async () => {
  const folder = mkdtempSync("/var/tmp/sandlot-pool-");
  const spawned = spyOn(Bun, "spawn");
  try {
    const pool = await openDiskPool(folder, new UnsharingMounts());
    expect(statfsSync(pool.folder).type).toBe(BTRFS);
    const commands = spawned.mock.calls.map(([argv]) => argv as unknown as string[]);
    const made = commands.filter((argv) => argv.includes("mkfs.btrfs"));
    expect(made.map((argv) => argv.slice(0, 3))).toEqual([["unshare", "--mount", "--propagation=private"]]);
  } finally {
    spawned.mockRestore();
    await attempt(["umount", "--lazy", join(folder, "disks")]);
    rmSync(folder, { recursive: true, force: true });
  }
});
