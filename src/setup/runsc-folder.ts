/** Installs runsc in a private folder, for operators that choose it as the isolation runtime. */
import { existsSync } from "node:fs";
import type { Toolbox } from "../system/toolbox.ts";
import { extractPackages } from "./extracted-packages.ts";
import { makeWhole, type SetupStep } from "./step.ts";

/**
 * The only Debian suite whose runsc works: the one before has no systrap and kills a sandbox while checkpointing it,
 * the one after panics when a guest starts.
 */
const SUITE = "trixie";

export function runscFolderStep(toolbox: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "runsc",
    done: () => existsSync(toolbox.runsc),
    make: (progress) =>
      makeWhole(toolbox.runscFolder, (folder) => extractPackages(folder, ["runsc"], mirror, progress, SUITE)),
  };
}
