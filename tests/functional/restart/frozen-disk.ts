/**
 * A frozen disk of a sandbox, which behaves like a broken one: a process that writes to it blocks in the kernel until
 * the disk is thawed, and not even SIGKILL ends it before that.
 */
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../../src/system/command.ts";

export class FrozenDisk {
  private constructor(readonly folder: string) {}

  /** `image` is the file of a disk that is in use. */
  static async freeze(image: string): Promise<FrozenDisk> {
    const device = /^([^:]+):/.exec(await run(["losetup", "--associated", image]))?.[1];
    if (device === undefined) throw new Error(`${image} is no disk in use`);
    const folder = mkdtempSync(join(tmpdir(), "frozen-disk-"));
    // The same filesystem once more, to have a name for it.
    await run(["mount", device, folder]);
    await run(["fsfreeze", "--freeze", folder]);
    return new FrozenDisk(folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run(["fsfreeze", "--unfreeze", this.folder]);
    await run(["umount", this.folder]);
    rmdirSync(this.folder);
  }
}
