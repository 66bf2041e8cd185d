/**
 * crun, with a change to the description of each sandbox on its way there: how tests make a sandbox whose walls are not
 * all there, or one that runs a program instead of its guest. No setting leads here; a test hands this to a runtime of
 * its own.
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
