/**
 * Locks the guest's program in memory, charged to the server. The kernel charges file pages to the cgroup that reads
 * them first. If that were a sandbox, a process there that takes all memory would evict them, and the guest, which must
 * read each page back, would respond seconds late.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { stderrLog } from "../../base/log.ts";
import type { Mounts } from "../../system/mount/mounts.ts";

export class GuestPages {
  readonly #held = new Map<string, Promise<void>>();

  constructor(readonly mounts: Mounts) {}

  /** To be awaited before a sandbox runs from this folder. The first call takes as long as reading the folder. */
  hold(guestFolder: string): Promise<void> {
    let held = this.#held.get(guestFolder);
    if (held === undefined) {
      held = this.#lock(guestFolder);
      this.#held.set(guestFolder, held);
      held.catch(() => this.#held.delete(guestFolder));
    }
    return held;
  }

  /** Unlocks a folder that no sandbox uses any more; it may be gone. */
  async letGo(guestFolder: string): Promise<void> {
    this.#held.delete(guestFolder);
    await this.mounts.do({ kind: "let-go", folder: guestFolder });
  }

  async #lock(guestFolder: string): Promise<void> {
    const files = ["bin", "lib"].flatMap((part) =>
      readdirSync(join(guestFolder, part)).map((name) => join(guestFolder, part, name)),
    );
    const held = await Promise.all(files.map((path) => this.mounts.do({ kind: "hold", path })));
    if (held.every(Boolean)) return;
    const event = "the guest cannot be locked in memory: it may answer late in a sandbox that runs out of it";
    stderrLog.write({ level: "warn", event, folder: guestFolder });
  }
}
