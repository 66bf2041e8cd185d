/**
 * Random ids read from the kernel each time: random numbers buffered in this process would be the same in all sandboxes
 * of one snapshot.
 */
import { closeSync, openSync, readSync } from "node:fs";

const BYTES = 16;

/** A UUID of version 4. */
export function freshId(): string {
  const bytes = Buffer.alloc(BYTES);
  const fd = openSync("/dev/urandom", "r");
  try {
    for (let at = 0; at < BYTES; ) at += readSync(fd, bytes, at, BYTES - at, null);
  } finally {
    closeSync(fd);
  }
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
