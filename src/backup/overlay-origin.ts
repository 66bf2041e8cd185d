/**
 * Removes the references of a disk to the lower folders that it was made over. An overlay with an index records the
 * file handle of the lower file for each changed one, and refuses other lowers, or silently shows no lower file at all.
 * Without these records it accepts a copy of the lowers.
 */
import { closeSync, constants, lstatSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "../system/command.ts";
import { removeAttribute } from "../system/syscalls.ts";

const ORIGIN_ATTRIBUTES = ["origin", "nlink", "impure", "uuid"].map((name) => `trusted.overlay.${name}`);
const INDEX_REMOVE_MS = 600_000;

/** `disk` is the folder of a mounted disk on which all names of changed files are written. */
export async function removeOverlayOrigin(disk: string): Promise<void> {
  removeAttributesBelow(Buffer.from(join(disk, "upper")));
  const index = join(disk, "work/index");
  await run(["rm", "--recursive", "--force", "--one-file-system", "--", index], { timeoutMs: INDEX_REMOVE_MS });
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
