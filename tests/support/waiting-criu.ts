/** The idle CRIU that a server has started ahead of demand. */
import { readFileSync } from "node:fs";

/** How it is called until it has its request. */
const WAITING = "\0swrk\x000\0";

export function isWaitingCriu(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").endsWith(WAITING);
  } catch {
    // It ended while we looked.
    return false;
  }
}
