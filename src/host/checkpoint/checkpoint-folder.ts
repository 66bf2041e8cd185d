/** The folder of one checkpoint. */
import { join } from "node:path";

/** Where the parts of a checkpoint are. */
export class CheckpointFolder {
  constructor(readonly path: string) {}

  get disk(): string {
    return join(this.path, "disk.img");
  }

  get memory(): string {
    return join(this.path, "memory");
  }

  get pack(): string {
    return join(this.path, "memory.pack");
  }

  get own(): string {
    return join(this.path, "own");
  }

  get manifest(): string {
    return join(this.path, "manifest.json");
  }
}
