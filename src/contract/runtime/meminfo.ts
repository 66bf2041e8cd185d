/**
 * The text of /proc/meminfo for a sandbox: its own memory instead of the machine's. Every line has a fixed length, so
 * that a new text overwrites the old one in place, in a single write.
 */
export interface MemoryUse {
  /** All in bytes. */
  total: number;
  /** Memory that cannot be reclaimed: of processes, of the kernel for them, and files in memory (`shared`). */
  used: number;
  /** Page cache of files on disks; dropped under memory pressure. */
  cache: number;
  /** Part of `used`: files in /dev/shm, /run and the like. */
  shared: number;
}

const NAME_WIDTH = 16;
const NUMBER_WIDTH = 12;

export function meminfoText({ total, used, cache, shared }: MemoryUse): string {
  const free = Math.max(0, total - used - cache);
  const anonymous = Math.max(0, used - shared);
  const lines: [string, number][] = [
    ["MemTotal", total],
    ["MemFree", free],
    ["MemAvailable", Math.min(total, free + cache)],
    ["Buffers", 0],
    ["Cached", cache + shared],
    ["SwapCached", 0],
    ["Active", anonymous],
    ["Inactive", cache + shared],
    ["Active(anon)", anonymous],
    ["Inactive(anon)", shared],
    ["Active(file)", 0],
    ["Inactive(file)", cache],
    ["Unevictable", 0],
    ["Mlocked", 0],
    ["SwapTotal", 0],
    ["SwapFree", 0],
    ["Dirty", 0],
    ["Writeback", 0],
    ["AnonPages", anonymous],
    ["Mapped", 0],
    ["Shmem", shared],
    ["KReclaimable", 0],
    ["Slab", 0],
    ["SReclaimable", 0],
    ["SUnreclaim", 0],
  ];
  return lines.map(([name, bytes]) => line(name, Math.floor(bytes / 1024))).join("");
}

/** In the kernel's format: the unit follows a column of numbers. */
function line(name: string, kibibytes: number): string {
  return `${`${name}:`.padEnd(NAME_WIDTH)}${String(kibibytes).padStart(NUMBER_WIDTH)} kB\n`;
}
