/** A small filesystem in a file, for a data folder that a test fills completely. */
import { mkdirSync, statfsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { attempt, run } from "../../src/system/command.ts";

const PIECE_MIN_BYTES = 64 * 1024;

export class SmallFilesystem {
  private constructor(
    readonly folder: string,
    readonly file: string,
  ) {}

  /** Mounted at `folder`, in this test's own mount namespace and all that is made from it. */
  static async make(folder: string, type: "ext4" | "btrfs", bytes: number): Promise<SmallFilesystem> {
    const file = join(dirname(folder), `.${type}-${crypto.randomUUID()}`);
    mkdirSync(folder, { recursive: true });
    await run(["truncate", "--size", String(bytes), file]);
    // No blocks are set aside for root: the server is root. That of btrfs looks at mounts, which others must not undo.
    const [ext4, btrfs] = [
      ["mkfs.ext4", "-q", "-F", "-m", "0"],
      ["unshare", "--mount", "mkfs.btrfs", "-q", "-f"],
    ];
    await run([...(type === "ext4" ? ext4 : btrfs), file]);
    await run(["mount", "-o", "loop", file, folder]);
    return new SmallFilesystem(folder, file);
  }

  /** Takes all space but this much. */
  async fill(leaveBytes = 0): Promise<void> {
    let piece = this.freeBytes;
    for (let nth = 0; piece >= PIECE_MIN_BYTES; nth++) {
      const wanted = Math.min(piece, this.freeBytes - leaveBytes);
      if (wanted < PIECE_MIN_BYTES) return;
      const { exitCode } = await attempt(["fallocate", "-l", String(wanted), join(this.folder, `filler-${nth}`)]);
      if (exitCode !== 0) piece = Math.floor(piece / 2);
    }
  }

  async empty(): Promise<void> {
    for (const name of await readdir(this.folder)) if (name.startsWith("filler-")) await rm(join(this.folder, name));
    // Only then is the space free on every filesystem.
    await run(["sync", "--file-system", this.folder]);
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.folder);
    return bavail * bsize;
  }

  async remove(): Promise<void> {
    await attempt(["umount", "--lazy", this.folder]);
    await rm(this.file, { force: true });
  }
}
