/** Paths inside the folder of one checkpoint. */
import { join } from "node:path";

export interface CheckpointFolder {
  path: string;
  disk: string;
  memory: string;
  pack: string;
  own: string;
  manifest: string;
}

export function checkpointFolder(path: string): CheckpointFolder {
  return {
    path,
    disk: join(path, "disk.img"),
    memory: join(path, "memory"),
    pack: join(path, "memory.pack"),
    own: join(path, "own"),
    manifest: join(path, "manifest.json"),
  };
}
