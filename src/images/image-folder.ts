/** Paths of the root filesystems of images. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Suffix of the file that names the image below. */
export const BELOW = ".below";

export function imageFolder(cacheFolder: string, image: string): string {
  return join(cacheFolder, "images", image);
}

/** The file that names the image on which this one is stacked; absent for an image without one below. */
export function belowFile(cacheFolder: string, image: string): string {
  return `${imageFolder(cacheFolder, image)}${BELOW}`;
}

export function imageBelow(cacheFolder: string, image: string): string | null {
  const path = belowFile(cacheFolder, image);
  // Most images have none, and a failed read takes five times as long as a check.
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}
