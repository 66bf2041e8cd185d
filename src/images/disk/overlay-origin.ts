/**
 * Removes the references of a disk to the lower folders that it was made over. An overlay with an index records the
 * file handle of the lower file for each changed one, and refuses other lowers, or silently shows no lower file at all.
 * Without these records it accepts a copy of the lowers.
 */
import { closeSync, constants, lstatSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { run } from "../../system/command.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { unmount } from "../../system/mount/unmount.ts";
import { removeAttribute } from "../../system/syscalls.ts";
import { EXT4_MOUNT } from "./prototypes.ts";

const ORIGIN_ATTRIBUTES = ["origin", "nlink", "impure", "uuid"].map((name) => `trusted.overlay.${name}`);
const INDEX_REMOVE_MS = 600_000;
const UNMOUNT_MS = scaled(600_000);

/**
 * `image` is the file of a disk that nothing uses and on which all names of changed files are written. It is mounted at
 * the folder `target` meanwhile.
 */
export async function removeOverlayOrigin(mounts: Mounts, image: string, target: string): Promise<void> {
  await mounts.do({ kind: "loop", image, target, type: "ext4", options: EXT4_MOUNT });
  try {
    removeAttributesBelow(Buffer.from(join(target, "upper")));
    const index = join(target, "work/index");
    await run(["rm", "--recursive", "--force", "--one-file-system", "--", index], { timeoutMs: INDEX_REMOVE_MS });
  } finally {
    await unmount(target, { timeoutMs: UNMOUNT_MS });
  }
}

/** A tenant may have nested folders more deeply than the kernel takes in one path, so each is opened from the last. */
function removeAttributesBelow(folder: Buffer): void {
  for (const name of ORIGIN_ATTRIBUTES) removeAttribute(folder, name);
  const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const here = `/proc/self/fd/${fd}/`;
    for (const name of readdirSync(here, { encoding: "buffer" })) {
      const path = Buffer.concat([Buffer.from(here), name]);
      if (lstatSync(path).isDirectory()) removeAttributesBelow(path);
      else for (const name of ORIGIN_ATTRIBUTES) removeAttribute(path, name);
    }
  } finally {
    closeSync(fd);
  }
}
