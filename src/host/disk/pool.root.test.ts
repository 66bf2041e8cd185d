/** How the filesystem for disks is made, where the data folder's own cannot share blocks. */
import { expect, spyOn, test } from "bun:test";
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { Mounts } from "../mount/mounts.ts";
import { attempt } from "../system/command.ts";
import { BTRFS, openPool } from "./pool.ts";

/** As on ext4. */
class UnsharingMounts extends Mounts {
  override async do(job: Parameters<Mounts["do"]>[0]): Promise<boolean> {
    return job.kind === "reflink" ? false : await super.do(job);
  }
}

// Seen to fail in a start beside others that ended: "cannot check mount status", for a device that was gone by then.
test("it is made in a mount namespace of its own, in which no mount of others goes meanwhile", async () => {
  const folder = mkdtempSync("/var/tmp/sandlot-pool-");
  const spawned = spyOn(Bun, "spawn");
  try {
    const pool = await openPool(folder, new UnsharingMounts());
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
