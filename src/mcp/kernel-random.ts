/**
 * Reads random values from the kernel each time: values buffered in the process would be the same in each copy of a
 * forked sandbox.
 */
import { closeSync, openSync, readSync } from "node:fs";

export function kernelHex(length: number): string {
  const bytes = Buffer.alloc(length);
  const file = openSync("/dev/urandom", "r");
  try {
    readSync(file, bytes);
  } finally {
    closeSync(file);
  }
  return bytes.toString("hex");
}
