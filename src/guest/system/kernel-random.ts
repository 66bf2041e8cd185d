/**
 * Random values from the kernel, each time. What runs in this process has random numbers in stock, and all copies of
 * the process, made from one checkpoint, have the same.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";

const UUIDS = "/proc/sys/kernel/random/uuid";
const BYTES = "/dev/urandom";

export function kernelUuid(): string {
  return readFileSync(UUIDS, "utf8").trim();
}

export function kernelBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  const fd = openSync(BYTES, "r");
  try {
    for (let at = 0; at < count; ) at += readSync(fd, bytes, at, count - at, null);
    return bytes;
  } finally {
    closeSync(fd);
  }
}
