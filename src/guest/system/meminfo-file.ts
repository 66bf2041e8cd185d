/**
 * Keeps true what the sandbox shows as /proc/meminfo, which is a file of its own there. It is written when a process
 * starts or is sent input, and when a client reads it as a file; nothing happens in a sandbox that is idle.
 *
 * The host watches this file while a sandbox boots: that it is touched says that the guest listens.
 */
import { closeSync, ftruncateSync, openSync, utimesSync, writeSync } from "node:fs";
import { type MemoryUse, meminfoText } from "../../contract/runtime/meminfo.ts";
import { logError } from "./log.ts";

/** What a sandbox shows of its memory is measured at most this often. */
export const MEMINFO_EVERY_MS = 1_000;

export class MeminfoFile {
  readonly #path: string | undefined;
  readonly #measure: () => MemoryUse;
  readonly #nowMs: () => number;
  #writtenMs = Number.NEGATIVE_INFINITY;
  #failed = false;

  /** Without a path there is none to keep: outside of a sandbox the kernel's own is true. */
  constructor(path: string | undefined, measure: () => MemoryUse, nowMs: () => number = () => performance.now()) {
    this.#path = path;
    this.#measure = measure;
    this.#nowMs = nowMs;
  }

  /** For the host; what is in the file stays as it is. */
  touch(): void {
    if (this.#path === undefined) return;
    const now = Date.now() / 1000;
    try {
      utimesSync(this.#path, now, now);
    } catch (thrown) {
      // The host finds out by itself, later.
      logError("the meminfo file could not be touched", thrown);
    }
  }

  /** The file at `path` is about to be read for a client. */
  refreshIfAt(path: string): void {
    if (path === this.#path) this.refresh();
  }

  /** Writes it unless that was done a moment ago. */
  refresh(): void {
    if (this.#nowMs() - this.#writtenMs >= MEMINFO_EVERY_MS) this.write();
  }

  /** Never throws: what was asked for must not fail for this. */
  write(): void {
    if (this.#path === undefined) return;
    this.#writtenMs = this.#nowMs();
    try {
      const text = meminfoText(this.#measure());
      const fd = openSync(this.#path, "r+");
      try {
        writeSync(fd, text, 0);
        // Root may have made it longer.
        ftruncateSync(fd, text.length);
      } finally {
        closeSync(fd);
      }
    } catch (thrown) {
      // Root in the sandbox can spoil the file. Once is enough to know.
      if (!this.#failed) logError("the meminfo file could not be written", thrown);
      this.#failed = true;
    }
  }
}
