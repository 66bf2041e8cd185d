/**
 * Random values read from the kernel each time. The process's own generator keeps a buffered state, which would be the
 * same in all copies restored from one checkpoint.
 */
import { closeSync, openSync, readSync } from "node:fs";

const BYTES = "/dev/urandom";

/** UUID version 4, built here because not every kernel provides UUIDs. */
export function kernelUuid(): string {
  const hex = kernelRandomBytes(16).toHex();
  const variant = (8 + (Number.parseInt(hex.charAt(16), 16) % 4)).toString(16);
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, variant + hex.slice(17, 20), hex.slice(20)].join(
    "-",
  );
}

export function kernelRandomBytes(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  const fd = openSync(BYTES, "r");
  try {
    for (let at = 0; at < count; ) at += readSync(fd, bytes, at, count - at, null);
    return bytes;
  } finally {
    closeSync(fd);
  }
}
