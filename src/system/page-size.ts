/** The page size of this machine's memory. */
import { readFileSync } from "node:fs";

let known: number | undefined;

/** In bytes: 16 or 64 KiB on some arm64 machines. Read once, because the kernel scans all our pages for it. */
export function pageSize(): number {
  known ??= lookUp();
  return known;
}

function lookUp(): number {
  const kib = /^KernelPageSize:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/smaps", "utf8"))?.[1];
  return Number(kib ?? 4) * 1024;
}
