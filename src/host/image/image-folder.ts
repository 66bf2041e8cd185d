/** Where the root filesystems of images lie. */
import { join } from "node:path";

export function imageFolder(cacheFolder: string, image: string): string {
  return join(cacheFolder, "images", image);
}
