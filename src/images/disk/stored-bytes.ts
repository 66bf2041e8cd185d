/**
 * Disk space of lasting data, for the operator: images of builds, checkpoints, and layers for the next builds. Read
 * from the folders, so that it works without a server. Blocks that two of them share count for both.
 */
import { existsSync } from "node:fs";
import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { diskPoolFiles } from "./disk-pool.ts";

/** The unit of `blocks` in `stat`. */
export const DISK_BLOCK_BYTES = 512;

export interface StoredBytes {
  images: Map<string, number>;
  checkpoints: Map<string, number>;
  /** All layers together. */
  layers: number;
}

/** Undefined: the filesystem is not mounted, so this process cannot see the folders. */
export async function storedBytes(dataFolder: string): Promise<StoredBytes | undefined> {
  const { folder, image } = diskPoolFiles(dataFolder);
  const [images, checkpoints, layers] = ["images", "checkpoints", "layers"].map((name) => join(folder, name));
  if (images === undefined || checkpoints === undefined || layers === undefined) return undefined;
  if (existsSync(image) && !existsSync(checkpoints)) return undefined;
  const ofLayers = await eachIn(layers, roomOf);
  return {
    images: await eachIn(images, async (path) => (await bytesNoted(path)) ?? 0),
    checkpoints: await eachIn(checkpoints, roomOf),
    layers: [...ofLayers.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}

/** Sizes by name. Names with a dot are being made or removed. */
async function eachIn(folder: string, measure: (path: string) => Promise<number>): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const name of await entriesOf(folder)) {
    if (!name.includes(".")) found.set(name, await measure(join(folder, name)));
  }
  return found;
}

/** An image may have a hundred thousand files, so its size was recorded when it was made. */
async function bytesNoted(path: string): Promise<number | undefined> {
  const text = await readFile(join(path, "image.json"), "utf8").catch(() => undefined);
  const bytes: unknown = text === undefined ? undefined : JSON.parse(text).bytes;
  return typeof bytes === "number" ? bytes : undefined;
}

/** For a folder of few files, all made by the server. A file that disappears counts 0. */
async function roomOf(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => undefined);
  let bytes = (stats?.blocks ?? 0) * DISK_BLOCK_BYTES;
  if (stats?.isDirectory()) for (const name of await entriesOf(path)) bytes += await roomOf(join(path, name));
  return bytes;
}

function entriesOf(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
