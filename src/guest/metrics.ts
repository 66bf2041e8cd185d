/**
 * How much of its share the sandbox uses. The cgroup's own counters come first (version 2, then 1); /proc is the fallback
 * for a guest outside of any cgroup.
 */
import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { systemCode } from "./rpc-fault.ts";

const MIB = 1024 * 1024;
const CGROUP = "/sys/fs/cgroup";

export interface Metrics {
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

  constructor(cpuCount: number | undefined, memoryMb: number | undefined) {
    this.#cpuCount = cpuCount ?? availableParallelism();
    this.#memoryTotal = memoryMb === undefined ? undefined : memoryMb * MIB;
    this.#lastCpu = { usedMs: cpuUsedMs(), atMs: performance.now() };
  }

  async read(): Promise<Metrics> {
    const memory = readMemory(this.#memoryTotal);
    const disk = await statfs("/");
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

  /** Over all processors, since the previous reading. */
  #cpuPercent(): number {
    const now = { usedMs: cpuUsedMs(), atMs: performance.now() };
    const available = (now.atMs - this.#lastCpu.atMs) * this.#cpuCount;
    const percent = available <= 0 ? 0 : (100 * (now.usedMs - this.#lastCpu.usedMs)) / available;
    this.#lastCpu = now;
    return Math.round(Math.min(100, Math.max(0, percent)) * 100) / 100;
  }
}

function cpuUsedMs(): number {
  const v2 = counter(readIfThere(`${CGROUP}/cpu.stat`), "usage_usec");
  if (v2 !== undefined) return v2 / 1000;
  for (const controller of ["cpuacct", "cpu,cpuacct"]) {
    const v1 = readIfThere(`${CGROUP}/${controller}/cpuacct.usage`);
    if (v1 !== undefined) return Number(v1) / 1e6;
  }
  return procCpuUsedMs();
}

function procCpuUsedMs(): number {
  const tickMs = 10;
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (readIfThere("/proc/stat") ?? "cpu")
    .split("\n", 1)
    .join()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * tickMs;
}

interface Memory {
  total: number;
  used: number;
  cache: number;
}

function readMemory(configuredTotal: number | undefined): Memory {
  const machine = readIfThere("/proc/meminfo") ?? "";
  const total = configuredTotal ?? kilobytes(machine, "MemTotal");
  const usage = cgroupMemory();
  if (usage !== undefined) return { total, used: Math.max(0, usage.current - usage.cache), cache: usage.cache };
  const cache = kilobytes(machine, "Cached") + kilobytes(machine, "Buffers");
  return { total, used: Math.max(0, total - kilobytes(machine, "MemFree") - cache), cache };
}

function cgroupMemory(): { current: number; cache: number } | undefined {
  const v2 = readIfThere(`${CGROUP}/memory.current`);
  if (v2 !== undefined) {
    return { current: Number(v2), cache: counter(readIfThere(`${CGROUP}/memory.stat`), "file") ?? 0 };
  }
  const v1 = readIfThere(`${CGROUP}/memory/memory.usage_in_bytes`);
  if (v1 === undefined) return undefined;
  const stat = readIfThere(`${CGROUP}/memory/memory.stat`);
  return { current: Number(v1), cache: counter(stat, "total_cache") ?? counter(stat, "cache") ?? 0 };
}

function counter(text: string | undefined, name: string): number | undefined {
  const value = new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "")?.[1];
  return value === undefined ? undefined : Number(value);
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
