/**
 * Resource use of the sandbox, by the counters of its cgroup (version 2 or 1).
 *
 * Memory is split in two. Cache is disk-file data that the kernel drops when it needs room. Used is everything else
 * charged to the sandbox: memory of processes, of the kernel on their behalf, and of tmpfs files, which the kernel
 * counts as cached but cannot drop.
 */
import { readFileSync, statfsSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { MIB } from "../../contract/limit.ts";
import type { MemoryUse } from "../../contract/runtime/meminfo.ts";
import { wholeNumber } from "./whole-number.ts";

interface Metrics {
  ts: number;
  cpu_count: number;
  cpu_used_pct: number;
  mem_total: number;
  mem_used: number;
  mem_cache: number;
  mem_total_mib: number;
  mem_used_mib: number;
  disk_used: number;
  disk_total: number;
}

export class Meter {
  #lastCpu: { usedMs: number; atMs: number };

  /** The size that the host gave the sandbox; tests use another folder of counters. */
  constructor(
    private readonly cpuCount = navigator.hardwareConcurrency,
    private readonly memoryMb = 0,
    private readonly cgroup = "/sys/fs/cgroup",
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#lastCpu = { usedMs: cpuUsedMs(cgroup), atMs: nowMs() };
  }

  memory(): MemoryUse {
    const { current, file, shmem } = chargedMemory(this.cgroup);
    // The counters are not read at one instant, and those of v1 lag behind one another.
    const cache = Math.min(current, Math.max(0, file - shmem));
    const used = current - cache;
    return { total: this.memoryMb * MIB, used, cache, shared: Math.min(used, shmem) };
  }

  read(): Metrics {
    const memory = this.memory();
    const disk = statfsSync("/");
    return {
      ts: Math.floor(Date.now() / 1000),
      cpu_count: this.cpuCount,
      cpu_used_pct: this.#cpuPercent(),
      mem_total: memory.total,
      mem_used: memory.used,
      mem_cache: memory.cache,
      mem_total_mib: Math.floor(memory.total / MIB),
      mem_used_mib: Math.floor(memory.used / MIB),
      disk_used: (disk.blocks - disk.bavail) * disk.bsize,
      disk_total: disk.blocks * disk.bsize,
    };
  }

  /** Percentage of all processors since the previous reading. Counters go back when a sandbox is restored. */
  #cpuPercent(): number {
    const now = { usedMs: cpuUsedMs(this.cgroup), atMs: this.nowMs() };
    const available = (now.atMs - this.#lastCpu.atMs) * this.cpuCount;
    const percent = available <= 0 ? 0 : (100 * (now.usedMs - this.#lastCpu.usedMs)) / available;
    this.#lastCpu = now;
    return Math.round(Math.min(100, Math.max(0, percent)) * 100) / 100;
  }
}

function cpuUsedMs(cgroup: string): number {
  const v2 = counter(readIfThere(`${cgroup}/cpu.stat`), "usage_usec");
  if (v2 !== undefined) return v2 / 1000;
  // Where the two controllers are mounted together, either name may be missing.
  for (const controller of ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"]) {
    const v1 = numberIn(`${cgroup}/${controller}/cpuacct.usage`);
    if (v1 !== undefined) return v1 / 1e6;
  }
  return 0;
}

function chargedMemory(cgroup: string): { current: number; file: number; shmem: number } {
  const v2 = numberIn(`${cgroup}/memory.current`);
  if (v2 !== undefined) {
    const stat = readIfThere(`${cgroup}/memory.stat`);
    return { current: v2, file: counter(stat, "file") ?? 0, shmem: counter(stat, "shmem") ?? 0 };
  }
  const current = numberIn(`${cgroup}/memory/memory.usage_in_bytes`) ?? 0;
  const stat = readIfThere(`${cgroup}/memory/memory.stat`);
  // The total_ counters include child cgroups, like the usage.
  const file = counter(stat, "total_cache") ?? counter(stat, "cache") ?? 0;
  const shmem = counter(stat, "total_shmem") ?? counter(stat, "shmem") ?? 0;
  return { current, file, shmem };
}

/** The number in a file that holds nothing else. */
function numberIn(path: string): number | undefined {
  return wholeNumber(readIfThere(path)?.trimEnd());
}

/** A counter in text with a name and a number per line. */
function counter(text: string | undefined, name: string): number | undefined {
  const lines = `\n${text ?? ""}`;
  const at = lines.indexOf(`\n${name} `);
  if (at < 0) return undefined;
  const begin = at + name.length + 2;
  const end = lines.indexOf("\n", begin);
  return wholeNumber(lines.slice(begin, end < 0 ? undefined : end));
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES", "EPERM"].includes(systemCode(thrown))) return undefined;
    throw thrown;
  }
}
