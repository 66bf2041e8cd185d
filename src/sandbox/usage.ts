/**
 * Resource usage of a sandbox, measured from outside: its cgroup counters and the filesystem at its root. The sandbox
 * cannot notice. Memory is split as in the guest: "cache" is what the kernel would reclaim, "used" is the rest.
 */
import { existsSync, readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../base/system-code.ts";
import { scaled } from "../base/time-factor.ts";
import type { Usage } from "../contract/internal/host.ts";
import type { SandboxRecord } from "./sandbox-record.ts";

/** Sandboxes to measure before yielding the event loop. */
const METRIC_TURN = 16;
const MEASURE_DISK_MS = scaled(1_000);

/** Where the counters are; tests use their own folders. */
const SYSTEM = { cgroup: "/sys/fs/cgroup", proc: "/proc" };

type Measured = Pick<SandboxRecord, "cgroup" | "rootPid">;

export class UsageMeter {
  readonly #cpuFolder: string;
  readonly #memoryFolder: string;
  readonly #isV2: boolean;
  readonly #proc: string;

  constructor(folders = SYSTEM) {
    this.#isV2 = existsSync(join(folders.cgroup, "cgroup.controllers"));
    const tree = (names: string[]) => names.find((name) => existsSync(join(folders.cgroup, name))) ?? "";
    // Where the two controllers are mounted together, either name may be missing.
    const cpuTree = this.#isV2 ? "" : tree(["cpuacct", "cpu,cpuacct", "cpuacct,cpu"]);
    this.#cpuFolder = join(folders.cgroup, cpuTree);
    this.#memoryFolder = join(folders.cgroup, this.#isV2 ? "" : "memory");
    this.#proc = folders.proc;
  }

  /** Measures all of these in one pass. Sandboxes that ended meanwhile, or whose disk hangs, are omitted. */
  async readAll(sandboxes: readonly (Measured & { id: string })[]): Promise<Map<string, Usage>> {
    const usages = new Map<string, Usage>();
    for (let at = 0; at < sandboxes.length; at += METRIC_TURN) {
      const some = sandboxes.slice(at, at + METRIC_TURN);
      const read = await Promise.all(some.map((sandbox) => this.read(sandbox).catch(() => undefined)));
      for (const [nth, usage] of read.entries()) if (usage !== undefined) usages.set(some[nth]?.id ?? "", usage);
    }
    return usages;
  }

  /** Throws when the sandbox has ended. */
  async read({ cgroup, rootPid }: Measured): Promise<Usage> {
    return { cpuUsedMs: this.cpuUsedMs(cgroup), ...this.#memory(cgroup), ...(await this.#disk(rootPid)) };
  }

  /** CPU times only. Sandboxes that ended meanwhile are omitted. */
  processorTimes(sandboxes: readonly Pick<SandboxRecord, "id" | "cgroup">[]): Map<string, number> {
    const times = new Map<string, number>();
    for (const { id, cgroup } of sandboxes) {
      try {
        times.set(id, this.cpuUsedMs(cgroup));
      } catch (thrown) {
        if (!isGone(thrown)) throw thrown;
      }
    }
    return times;
  }

  cpuUsedMs(cgroup: string): number {
    const folder = join(this.#cpuFolder, cgroup);
    return this.#isV2
      ? counter(readFileSync(join(folder, "cpu.stat"), "utf8"), "usage_usec") / 1000
      : Number(readFileSync(join(folder, "cpuacct.usage"), "utf8")) / 1e6;
  }

  #memory(cgroup: string): { memUsed: number; memCache: number } {
    const folder = join(this.#memoryFolder, cgroup);
    const current = Number(readFileSync(join(folder, this.#isV2 ? "memory.current" : "memory.usage_in_bytes"), "utf8"));
    const stat = readFileSync(join(folder, "memory.stat"), "utf8");
    const prefix = this.#isV2 ? "" : "total_";
    const file = counter(stat, this.#isV2 ? "file" : "total_cache");
    // The counters are not read at one instant, and those of cgroup v1 lag behind one another.
    const memCache = Math.min(current, Math.max(0, file - counter(stat, `${prefix}shmem`)));
    return { memUsed: current - memCache, memCache };
  }

  async #disk(pid: number): Promise<{ diskUsed: number; diskTotal: number }> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error("the disk does not answer")), MEASURE_DISK_MS);
    try {
      const disk = await Promise.race([statfs(join(this.#proc, String(pid), "root")), late.promise]);
      return { diskUsed: (disk.blocks - disk.bavail) * disk.bsize, diskTotal: disk.blocks * disk.bsize };
    } finally {
      clearTimeout(timer);
    }
  }
}

function isGone(thrown: unknown): boolean {
  return ["ENOENT", "ENODEV", "ESRCH"].includes(systemCode(thrown));
}

function counter(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
}
