/**
 * How fast a sandbox may read from and write to its disk. With cgroup v2 that is all it does. With v1 it is what it
 * reads, writes directly or waits for (fsync); what the kernel writes later, from memory, belongs to nobody there.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { CGROUP_ROOT, layoutOf } from "./cgroups.ts";

/** The processes of `cgroup` may move so much from and to a block device, such as `/dev/loop7`. */
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
    if (!existsSync(file)) throw new Fault(500, `${file} is not there, so this kernel cannot limit disks. ${FIX}`);
    writeFileSync(file, line);
  }
}

const FIX = "FIX: a kernel with CONFIG_BLK_DEV_THROTTLING, or no SANDLOT_DISK_MB_PER_SECOND";

/** As the kernel counts devices: `7:9`. */
function numbersOf(device: string): string {
  return readFileSync(`/sys/block/${basename(device)}/dev`, "utf8").trim();
}
