/**
 * Locks the guest's program in memory while sandboxes run, charged to the server. The kernel charges file pages to the
 * cgroup that reads them first. If that were a sandbox, a process there that takes all memory would evict them, and the
 * guest, which must read each page back, would respond seconds late.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Leases } from "../../base/leases.ts";
import { stderrLog } from "../../base/log.ts";
import type { Mounts } from "../../system/mount/mounts.ts";

/** How long a guest without sandboxes stays locked: sandboxes that follow each other lock it once. */
const UNUSED_MS = 10_000;

interface Locked {
  done: Promise<void>;
  usedAt: number;
}

export class GuestPages {
  readonly #locked = new Map<string, Locked>();
  readonly #starts = new Leases();

  constructor(readonly mounts: Mounts) {}

  /**
   * To be awaited before a sandbox runs from this folder, and disposed when `unlockUnused` gets the sandbox. The
   * first call takes as long as reading the folder.
   */
  async hold(guestFolder: string): Promise<Disposable> {
    const start = this.#starts.hold(guestFolder);
    try {
      await this.#lockOnce(guestFolder);
      return start;
    } catch (cause) {
      start[Symbol.dispose]();
      throw cause;
    }
  }

  /** Unlocks folders that none of these sandboxes has used for a while. To be called now and then. */
  async unlockUnused(sandboxes: Iterable<{ guestFolder: string }>, now = performance.now()): Promise<void> {
    if (this.#locked.size === 0) return;
    using starts = this.#starts.watch();
    const used = new Set([...starts.seen, ...Array.from(sandboxes, ({ guestFolder }) => guestFolder)]);
    for (const folder of used) {
      const locked = this.#locked.get(folder);
      if (locked !== undefined) locked.usedAt = now;
    }
    const unused = [...this.#locked].filter(([, { usedAt }]) => now - usedAt > UNUSED_MS);
    await Promise.all(unused.map(([folder]) => this.unlock(folder)));
  }

  /** Unlocks a folder that no sandbox uses any more; it may be gone. */
  async unlock(guestFolder: string): Promise<void> {
    this.#locked.delete(guestFolder);
    await this.mounts.do({ kind: "unlock-folder", folder: guestFolder });
  }

  async #lockOnce(guestFolder: string): Promise<void> {
    let locked = this.#locked.get(guestFolder);
    if (locked === undefined) {
      locked = { done: this.#lock(guestFolder), usedAt: performance.now() };
      this.#locked.set(guestFolder, locked);
    }
    try {
      await locked.done;
    } catch (cause) {
      if (this.#locked.get(guestFolder) === locked) this.#locked.delete(guestFolder);
      throw cause;
    }
  }

  async #lock(guestFolder: string): Promise<void> {
    const files = ["bin", "lib"].flatMap((part) =>
      readdirSync(join(guestFolder, part)).map((name) => join(guestFolder, part, name)),
    );
    const held = await Promise.all(files.map((path) => this.mounts.do({ kind: "lock-file", path })));
    if (held.every(Boolean)) return;
    const event = "the guest cannot be locked in memory: it may answer late in a sandbox that runs out of it";
    stderrLog.write({ level: "warn", event, folder: guestFolder });
  }
}
