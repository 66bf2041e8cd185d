/** Real blobs in a folder, for tests of other modules. */
import type { Clock } from "../../base/clock.ts";
import type { Blobs } from "../blobs.ts";
import { FolderBlobs } from "../folder-blobs.ts";

export function blobsIn(folder: string, clock: Clock): Promise<Blobs> {
  return FolderBlobs.open(folder, clock);
}
