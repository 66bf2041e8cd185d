/**
 * Assigns processors to sandboxes. A sandbox with fewer processors than the machine is pinned to that many, so that
 * programs inside count the right number (`nproc`, thread pools). Assignments rotate over the machine, so that no
 * processor is crowded.
 */
import { readFileSync } from "node:fs";

const PRESENT = "/sys/devices/system/cpu/online";

export class Processors {
  #next = 0;

  constructor(readonly online: readonly number[] = parseList(readFileSync(PRESENT, "utf8"))) {}

  /** A list in the kernel's format; undefined when a sandbox of this size may run on all processors. */
  take(count: number): string | undefined {
    if (count >= this.online.length) return undefined;
    const first = this.#next;
    this.#next = (this.#next + count) % this.online.length;
    return Array.from({ length: count }, (_, at) => this.online[(first + at) % this.online.length]).join(",");
  }
}

/** Parses the kernel's list format: `0-3,5`. */
export function parseList(text: string): number[] {
  return text
    .trim()
    .split(",")
    .filter((part) => part !== "")
    .flatMap((part) => {
      const [first = 0, last = first] = part.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => first + at);
    });
}
