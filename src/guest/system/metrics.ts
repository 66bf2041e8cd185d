/**
 * Resource use of the sandbox. The cgroup's counters come first (version 2, then 1); /proc, which covers the whole
 * machine, is the fallback outside a cgroup.
 *
 * Memory is split in two. Cache is disk-file data that the kernel drops when it needs room. Used is everything else
 * charged to the sandbox: memory of processes, of the kernel on their behalf, and of tmpfs files, which the kernel
 * counts as cached but cannot drop.
 */
import { readFileSync, type StatsFs, statfs } from "node:fs";
import type { MemoryUse } from "../../contract/runtime/meminfo.ts";
import { systemCode } from "./rpc-fault.ts";
import { wholeNumber } from "./whole-number.ts";

const MIB = 1024 * 1024;

/** Locations of the counters; tests use other folders. */
const SYSTEM: MetricsFolders = { cgroup: "/sys/fs/cgroup", proc: "/proc" };

interface MetricsFolders {
  cgroup: string;
  proc: string;
}

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
  readonly #cpuCount: number;
  readonly #memoryTotal: number | undefined;
  #lastCpu: { usedMs: number; atMs: number };

  /** The host's values, or by default the cgroup's limit or the machine's size. */
  constructor(
    cpuCount: number | undefined,
    memoryMb: number | undefined,
    private readonly folders: MetricsFolders = SYSTEM,
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#cpuCount = cpuCount ?? navigator.hardwareConcurrency;
    this.#memoryTotal = memoryMb === undefined ? undefined : memoryMb * MIB;
    this.#lastCpu = { usedMs: cpuUsedMs(folders), atMs: nowMs() };
  }

  memory(): MemoryUse {
    return readMemory(this.folders, this.#memoryTotal);
  }

  async read(): Promise<Metrics> {
    const memory = this.memory();
    const disk = await diskUse("/");
    return {
      ts: Math.floor(Date.now() / 1000),
      cpu_count: this.#cpuCount,
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

  /**
   * Percentage over all processors since the previous reading. Counters that went back (a restored sandbox) count as
   * idle.
   */
  #cpuPercent(): number {
    const now = { usedMs: cpuUsedMs(this.folders), atMs: this.nowMs() };
    const available = (now.atMs - this.#lastCpu.atMs) * this.#cpuCount;
    const percent = available <= 0 ? 0 : (100 * (now.usedMs - this.#lastCpu.usedMs)) / available;
    this.#lastCpu = now;
    return Math.round(Math.min(100, Math.max(0, percent)) * 100) / 100;
  }
}

/** Uses the callback form: the promises module would be loaded at every boot for a rare request. */
function diskUse(path: string): Promise<StatsFs> {
  return new Promise((resolve, reject) => {
    statfs(path, (error, use) => (error === null || error === undefined ? resolve(use) : reject(error)));
  });
}

function cpuUsedMs({ cgroup, proc }: MetricsFolders): number {
  const v2 = counter(readIfThere(`${cgroup}/cpu.stat`), "usage_usec");
  if (v2 !== undefined) return v2 / 1000;
  // Where the two controllers are mounted together, either name may be missing.
  for (const controller of ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"]) {
    const v1 = numberIn(`${cgroup}/${controller}/cpuacct.usage`);
    if (v1 !== undefined) return v1 / 1e6;
  }
  return procCpuUsedMs(readIfThere(`${proc}/stat`));
}

function procCpuUsedMs(stat = "cpu"): number {
  const tickMs = 10;
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = stat
    .split("\n", 1)
    .join()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * tickMs;
}

/** Root in a sandbox can make /proc/meminfo huge, so it is read only if needed. */
function readMemory({ cgroup, proc }: MetricsFolders, configuredTotal: number | undefined): MemoryUse {
  const charged = chargedMemory(cgroup);
  if (charged === undefined) return machineMemory(readIfThere(`${proc}/meminfo`) ?? "", configuredTotal);
  // The counters are not read at one instant, and those of v1 lag behind one another.
  const cache = Math.min(charged.current, Math.max(0, charged.file - charged.shmem));
  const used = charged.current - cache;
  const total = configuredTotal ?? smallerLimit(charged.limit, readIfThere(`${proc}/meminfo`) ?? "");
  return { total, used, cache, shared: Math.min(used, charged.shmem) };
}

function smallerLimit(limit: number | undefined, meminfo: string): number {
  const machine = kilobytes(meminfo, "MemTotal");
  return Math.min(limit ?? machine, machine || Number.POSITIVE_INFINITY);
}

function machineMemory(meminfo: string, configuredTotal: number | undefined): MemoryUse {
  const total = kilobytes(meminfo, "MemTotal");
  const shared = kilobytes(meminfo, "Shmem");
  const cache = Math.max(0, kilobytes(meminfo, "Cached") + kilobytes(meminfo, "Buffers") - shared);
  const used = Math.max(0, total - kilobytes(meminfo, "MemFree") - cache);
  return { total: configuredTotal ?? total, used, cache, shared: Math.min(used, shared) };
}

interface ChargedMemory {
  current: number;
  file: number;
  shmem: number;
  limit: number | undefined;
}

function chargedMemory(cgroup: string): ChargedMemory | undefined {
  const v2 = numberIn(`${cgroup}/memory.current`);
  if (v2 !== undefined) {
    const stat = readIfThere(`${cgroup}/memory.stat`);
    const limit = numberIn(`${cgroup}/memory.max`);
    return { current: v2, file: counter(stat, "file") ?? 0, shmem: counter(stat, "shmem") ?? 0, limit };
  }
  const v1 = numberIn(`${cgroup}/memory/memory.usage_in_bytes`);
  if (v1 === undefined) return undefined;
  const stat = readIfThere(`${cgroup}/memory/memory.stat`);
  const limit = numberIn(`${cgroup}/memory/memory.limit_in_bytes`);
  // The total_ counters include child cgroups, like the usage.
  const file = counter(stat, "total_cache") ?? counter(stat, "cache") ?? 0;
  const shmem = counter(stat, "total_shmem") ?? counter(stat, "shmem") ?? 0;
  return { current: v1, file, shmem, limit };
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

function kilobytes(meminfo: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? 0) * 1024;
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES", "EPERM"].includes(systemCode(thrown))) return undefined;
    throw thrown;
  }
}
