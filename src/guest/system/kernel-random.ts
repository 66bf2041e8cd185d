/**
 * Random values from the kernel, each time. What runs in this process has random numbers in stock, and all copies of
 * the process, made from one checkpoint, have the same.
 */
import { closeSync, openSync, readSync } from "node:fs";

const BYTES = "/dev/urandom";

/** Of version 4. Not every kernel has them ready made. */
export function kernelUuid(): string {
  const hex = kernelBytes(16).toHex();
  const variant = (8 + (Number.parseInt(hex.charAt(16), 16) % 4)).toString(16);
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, variant + hex.slice(17, 20), hex.slice(20)].join(
    "-",
  );
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
