/** How large a page of this machine's memory is. */
import { readFileSync } from "node:fs";

/** In bytes: 16 or 64 KiB on some arm64 machines. */
export function pageSize(): number {
  const kib = /^KernelPageSize:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/smaps", "utf8"))?.[1];
  return Number(kib ?? 4) * 1024;
}
