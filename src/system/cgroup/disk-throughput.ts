/**
 * Limits how fast a sandbox may read from and write to its disk. With cgroup v2 the limit covers all I/O. With v1 it
 * covers reads, direct writes and fsync; pages that the kernel writes back later are charged to no cgroup.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { CGROUP_ROOT, layoutOf } from "./cgroups.ts";

/** Limits the processes of `cgroup` on a block device, such as `/dev/loop7`. */
export function limitThroughput(
  cgroup: string,
  device: string,
  bytesPerSecond: number,
  { root, numbers }: { root: string; numbers: string } = { root: CGROUP_ROOT, numbers: numbersOf(device) },
): void {
  const isV2 = layoutOf(root) === "v2";
  const lines = isV2
    ? { "io.max": `${numbers} rbps=${bytesPerSecond} wbps=${bytesPerSecond}` }
    : {
        "blkio.throttle.read_bps_device": `${numbers} ${bytesPerSecond}`,
        "blkio.throttle.write_bps_device": `${numbers} ${bytesPerSecond}`,
      };
  const folder = isV2 ? join(root, cgroup) : join(root, "blkio", cgroup);
  for (const [name, line] of Object.entries(lines)) {
    const file = join(folder, name);
    if (!existsSync(file)) throw new Fault(500, `${file} does not exist, so this kernel cannot limit disks. ${FIX}`);
    writeFileSync(file, line);
  }
}

const FIX = "FIX: a kernel with CONFIG_BLK_DEV_THROTTLING, or no SANDLOT_DISK_MB_PER_SECOND";

/** The kernel's device number, such as `7:9`. */
function numbersOf(device: string): string {
  return readFileSync(`/sys/block/${basename(device)}/dev`, "utf8").trim();
}
