/**
 * How much memory the ready pool may use: a part of what is free on the machine and below every cgroup limit of
 * sandboxes, after a reserve. The value shrinks at once and grows only after a delay, so that the pool starts no
 * sandbox that it would have to discard a moment later.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { CGROUP_ROOT } from "../../system/cgroup/cgroups.ts";

/**
 * The part of free memory that the ready pool may use, after the reserve. The reserve is READY_RESERVE_PART of all
 * memory, and at least READY_RESERVE_MIN_BYTES. Growth counts only after READY_REGROW_MS.
 */
export const READY_MEMORY_PART = 0.25;
/** Free memory is read at most this often. */
export const READY_MEMORY_EVERY_MS = 100;
const READY_RESERVE_PART = 0.1;
const READY_RESERVE_MIN_BYTES = 512 * 1024 ** 2;
export const READY_REGROW_MS = 10_000;

interface MemoryLeft {
  totalBytes: number;
  availableBytes: number;
}

/** Where the values are read; tests use their own folders. */
const SYSTEM = { cgroup: CGROUP_ROOT, meminfo: "/proc/meminfo" };

/** The smallest of the machine's memory and the limits of the cgroups from the root down to this one. */
export function memoryLeft(cgroup: string, system = SYSTEM): MemoryLeft {
  const meminfo = readFileSync(system.meminfo, "utf8");
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? 0) * 1024;
  const left = { totalBytes: kib("MemTotal"), availableBytes: kib("MemAvailable") };
  const names = cgroup.split("/").filter(Boolean);
  for (let depth = 0; depth <= names.length; depth++) {
    const path = names.slice(0, depth).join("/");
    const limited = limitOf(system.cgroup, path);
    if (limited === undefined || limited.totalBytes > left.totalBytes) continue;
    left.totalBytes = limited.totalBytes;
    left.availableBytes = Math.min(left.availableBytes, limited.availableBytes);
  }
  return left;
}

function limitOf(root: string, path: string): MemoryLeft | undefined {
  const isV1 = existsSync(join(root, "memory"));
  const folder = isV1 ? join(root, "memory", path) : join(root, path);
  const limitFile = join(folder, isV1 ? "memory.limit_in_bytes" : "memory.max");
  if (!existsSync(limitFile)) return undefined;
  // "max" is not a number: there is no limit.
  const totalBytes = Number(readFileSync(limitFile, "utf8"));
  if (!Number.isFinite(totalBytes)) return undefined;
  const used = Number(readFileSync(join(folder, isV1 ? "memory.usage_in_bytes" : "memory.current"), "utf8"));
  const stat = readFileSync(join(folder, "memory.stat"), "utf8");
  const counter = (name: string) =>
    Number(new RegExp(`^${isV1 ? "total_" : ""}${name} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
  // Page cache, which the kernel reclaims on demand.
  const files = counter("inactive_file") + counter("active_file");
  return { totalBytes, availableBytes: Math.max(0, totalBytes - used + files) };
}

export class MemoryRoom {
  #left: MemoryLeft | undefined;
  #readAt = 0;
  #bytes = 0;
  /** When the value was smallest. */
  #leastAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly read: () => MemoryLeft,
    private readonly clock: Pick<Clock, "now">,
  ) {}

  /** `heldBytes` is the memory of sandboxes already in the pool. */
  bytes(heldBytes: number): number {
    const now = this.clock.now();
    // Every create and every start calls this, and reading the files takes longer than most of their other work here.
    if (this.#left === undefined || Math.abs(now - this.#readAt) >= READY_MEMORY_EVERY_MS) {
      this.#left = this.read();
      this.#readAt = now;
    }
    const { totalBytes, availableBytes } = this.#left;
    const reserve = Math.max(READY_RESERVE_MIN_BYTES, totalBytes * READY_RESERVE_PART);
    const bytes = Math.max(0, availableBytes + heldBytes - reserve) * READY_MEMORY_PART;
    if (bytes <= this.#bytes || Math.abs(now - this.#leastAt) >= READY_REGROW_MS) {
      this.#bytes = bytes;
      this.#leastAt = now;
    }
    return this.#bytes;
  }
}
