/**
 * Random values from the kernel, each time. What runs in this process has random numbers in stock, and all copies of
 * the process, made from one checkpoint, have the same.
 */
import { readFileSync } from "node:fs";

const SOURCE = "/proc/sys/kernel/random/uuid";

export function kernelUuid(): string {
  return readFileSync(SOURCE, "utf8").trim();
}
