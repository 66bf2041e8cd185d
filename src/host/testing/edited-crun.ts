/**
 * A crun wrapper that edits the OCI spec of each sandbox: tests use it to make a sandbox with weaker isolation, or one
 * that runs a program instead of its guest. No setting leads here; a test passes it to its own runtime.
 */
import { join } from "node:path";
import { Toolbox } from "../../system/toolbox.ts";
import type { EDITS } from "./spec-edits.ts";

export class EditingToolbox extends Toolbox {
  constructor(
    cacheFolder: string,
    readonly edits: readonly (keyof typeof EDITS)[],
  ) {
    super(cacheFolder);
  }

  override get crun(): string[] {
    return [process.execPath, join(import.meta.dir, "edited-crun-program.ts"), this.edits.join(","), ...super.crun];
  }
}
