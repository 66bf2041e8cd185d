/** Paths inside the folder of one checkpoint. */
import { join } from "node:path";

export type CheckpointFolder = ReturnType<typeof checkpointFolder>;

export function checkpointFolder(path: string) {
  return {
    path,
    disk: join(path, "disk.img"),
    memory: join(path, "memory"),
    pack: join(path, "memory.pack"),
    own: join(path, "own"),
    manifest: join(path, "manifest.json"),
  };
}
