/**
 * How much room on the disk lasting things take, for whoever shows it to the operator: images of builds, checkpoints,
 * and what is kept for the next builds. Looked up in the folders themselves, so that it needs no server. Blocks that
 * two of them share are counted with both.
 */
import { existsSync } from "node:fs";
import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { poolFiles } from "./pool.ts";

/** The unit in which a file says how much room it takes. */
const DISK_BLOCK_BYTES = 512;

export interface StoredBytes {
  images: Map<string, number>;
  checkpoints: Map<string, number>;
  /** All of them together. */
  layers: number;
}

/** Undefined: this process cannot see it, because the filesystem that it lies on is not mounted. */
export async function storedBytes(dataFolder: string): Promise<StoredBytes | undefined> {
  const { folder, image } = poolFiles(dataFolder);
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

/** By their names. What is being made or removed has a dot in its name, or at its begin. */
async function eachIn(folder: string, measure: (path: string) => Promise<number>): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const name of await entriesOf(folder)) {
    if (!name.includes(".")) found.set(name, await measure(join(folder, name)));
  }
  return found;
}

/** An image may have a hundred thousand files; whoever made it has written down what they take. */
async function bytesNoted(path: string): Promise<number | undefined> {
  const text = await readFile(join(path, "image.json"), "utf8").catch(() => undefined);
  const bytes: unknown = text === undefined ? undefined : JSON.parse(text).bytes;
  return typeof bytes === "number" ? bytes : undefined;
}

/** Of a folder of few files and folders, each made by the server. What goes meanwhile counts nothing. */
async function roomOf(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => undefined);
  let bytes = (stats?.blocks ?? 0) * DISK_BLOCK_BYTES;
  if (stats?.isDirectory()) for (const name of await entriesOf(path)) bytes += await roomOf(join(path, name));
  return bytes;
}

function entriesOf(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
