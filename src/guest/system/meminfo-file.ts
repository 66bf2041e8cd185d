/**
 * Keeps the sandbox's /proc/meminfo current, which is a regular file there. It is written when a process starts or is
 * sent input, and when a client reads it as a file, so an idle sandbox does no work.
 *
 * The host watches this file while a sandbox boots: the first touch means that the guest listens.
 */
import { closeSync, ftruncateSync, openSync, utimesSync, writeSync } from "node:fs";
import { type MemoryUse, meminfoText } from "../../contract/runtime/meminfo.ts";
import { logError } from "./log.ts";

export const MEMINFO_EVERY_MS = 1_000;

export class MeminfoFile {
  #writtenMs = Number.NEGATIVE_INFINITY;
  #failed = false;

  /** Without a path nothing is written: outside a sandbox the kernel's own file is correct. */
  constructor(
    private readonly path: string | undefined,
    private readonly measure: () => MemoryUse,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Signals the host; the content stays unchanged. */
  touch(): void {
    if (this.path === undefined) return;
    const now = Date.now() / 1000;
    try {
      utimesSync(this.path, now, now);
    } catch (thrown) {
      // The host detects this later by itself.
      logError("the meminfo file could not be touched", thrown);
    }
  }

  /** Called before the file at `path` is read for a client. */
  refreshIfAt(path: string): void {
    if (path === this.path) this.refresh();
  }

  /** Writes the file unless it was written a moment ago. */
  refresh(): void {
    if (this.nowMs() - this.#writtenMs >= MEMINFO_EVERY_MS) this.write();
  }

  /** Never throws: the caller's operation must not fail because of this file. */
  write(): void {
    if (this.path === undefined) return;
    this.#writtenMs = this.nowMs();
    try {
      const text = meminfoText(this.measure());
      const fd = openSync(this.path, "r+");
      try {
        writeSync(fd, text, 0);
        // Root may have made the file longer.
        ftruncateSync(fd, text.length);
      } finally {
        closeSync(fd);
      }
    } catch (thrown) {
      // Root in the sandbox can break the file. It is logged only once.
      if (!this.#failed) logError("the meminfo file could not be written", thrown);
      this.#failed = true;
    }
  }
}
