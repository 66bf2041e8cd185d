/** Random values straight from the kernel: a gateway that is forked would have the same ones in stock in each copy. */
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
