/** One artifact in the cache folder, made once and found by name. An incomplete one is never used. */
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { noteImage } from "../images/cached-images.ts";
import { imageFolder } from "../images/image-folder.ts";

export interface SetupStep {
  /** What is being made, as shown on the terminal. */
  title: string;
  done(): boolean;
  make(progress: (line: string) => void): Promise<void>;
}

export async function makeImage(
  cacheFolder: string,
  image: string,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  noteImage(cacheFolder, image);
  await makeAtomically(imageFolder(cacheFolder, image), fill);
}

/** Fills a folder beside `target` and moves it into place only when it is complete. */
export async function makeAtomically(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const unfinished = `${target}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(dirname(target), { recursive: true });
  await mkdir(unfinished, { mode: 0o755 });
  try {
    await fill(unfinished);
  } catch (cause) {
    // This folder may be what filled the disk. Report the original error even if the removal fails.
    await rm(unfinished, { recursive: true, force: true }).catch(() => undefined);
    throw cause;
  }
  await rm(target, { recursive: true, force: true });
  await rename(unfinished, target);
}
