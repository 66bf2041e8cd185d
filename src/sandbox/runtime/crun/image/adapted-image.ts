/**
 * Adapts a memory image for one restore and leaves the stored image unchanged: the same files, except those with the
 * sizes of open files, the content of terminals, and the host's user ids.
 */
import { chownSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HOST_ID_FIRST, type IdRange } from "../../../../system/id-range.ts";
import type { Mounts } from "../../../../system/mount/mounts.ts";
import { idsIn, withIds } from "./image-ids.ts";
import { FILES_IMAGE, withSizes } from "./image-open-files.ts";
import { TERMINALS_IMAGE, terminalsThatFit } from "./image-terminals.ts";

interface Adaptation {
  ids: IdRange;
  /** Open files that have grown since. */
  grown?: ReadonlyMap<string, number> | undefined;
  /** The sandbox's folder. A mount there is removed with the sandbox if it is not released. */
  folder: string;
}

/** The image is at `folder` until it is released, or until the paths in `mounted` are detached. */
export async function adaptImage(
  images: string,
  { ids, grown, folder }: Adaptation,
  mounts: Pick<Mounts, "do">,
): Promise<{ folder: string; mounted: string[] } & AsyncDisposable> {
  const changed = changedFiles(images, ids, grown);
  if (changed.size === 0) return { folder: images, mounted: [], [Symbol.asyncDispose]: async () => undefined };
  const files: Record<string, string> = {};
  for (const [name, content] of changed) {
    const path = join(folder, name);
    writeFileSync(path, content, { mode: 0o640 });
    // Read from inside the user namespace, like the image itself.
    chownSync(path, 0, ids.first);
    files[name] = path;
  }
  const target = join(folder, "image");
  mkdirSync(target, { recursive: true, mode: 0o700 });
  await mounts.do({ kind: "image", source: images, target, firstId: ids.first, files });
  const release = async () => void (await mounts.do({ kind: "detach", target }));
  return { folder: target, mounted: [target], [Symbol.asyncDispose]: release };
}

function changedFiles(images: string, ids: IdRange, grown: ReadonlyMap<string, number> | undefined) {
  const changed = new Map<string, Buffer>();
  const written = idsIn(images);
  // The stored image is readable only for the root of the shared id range.
  const isOpen = ids.first === HOST_ID_FIRST;
  if (!isOpen || written.first !== ids.first) changed.set(written.name, withIds(written.content, ids));
  if (grown !== undefined && grown.size > 0) {
    changed.set(FILES_IMAGE, withSizes(readFileSync(join(images, FILES_IMAGE)), grown));
  }
  const terminals = terminalsThatFit(images);
  if (terminals !== undefined) changed.set(TERMINALS_IMAGE, terminals);
  return changed;
}
