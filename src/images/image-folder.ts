/** Where the root filesystems of images lie. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Ending of the file that names the image on which one of these is stacked. */
export const BELOW = ".below";

export function imageFolder(cacheFolder: string, image: string): string {
  return join(cacheFolder, "images", image);
}

/** The file that names the image on which one of these is stacked; without it, it is whole by itself. */
export function belowFile(cacheFolder: string, image: string): string {
  return `${imageFolder(cacheFolder, image)}${BELOW}`;
}

export function imageBelow(cacheFolder: string, image: string): string | null {
  const path = belowFile(cacheFolder, image);
  // Most have none, and a failed read takes five times as long as a look.
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}
