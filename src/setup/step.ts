/**
 * One thing that set-up makes and keeps in the cache folder. Made once, found again by name; a half-made one is never
 * seen.
 */
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { noteImage } from "../images/cached-images.ts";
import { imageFolder } from "../images/image-folder.ts";

export interface SetupStep {
  /** What is being made, as the person at the terminal reads it. */
  title: string;
  done(): boolean;
  make(progress: (line: string) => void): Promise<void>;
}

/** Makes an image of the cache folder. */
export async function makeImage(
  cacheFolder: string,
  image: string,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  noteImage(cacheFolder, image);
  await makeWhole(imageFolder(cacheFolder, image), fill);
}

/** Fills a folder beside `target` and moves it into place only when it is whole. */
export async function makeWhole(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const unfinished = `${target}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(dirname(target), { recursive: true });
  await mkdir(unfinished, { mode: 0o755 });
  try {
    await fill(unfinished);
  } catch (cause) {
    // It may be what has filled the disk. The reason counts, not whether this could be removed, too.
    await rm(unfinished, { recursive: true, force: true }).catch(() => undefined);
    throw cause;
  }
  await rm(target, { recursive: true, force: true });
  await rename(unfinished, target);
}
