/** The private folder with crun, CRIU and the small programs that go into every sandbox. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Toolbox } from "../system/toolbox.ts";
import { extractPackages } from "./extracted-packages.ts";
import { makeWhole, type SetupStep } from "./step.ts";

const PACKAGES = ["crun", "criu", "libcriu2", "catatonit", "busybox-static", "util-linux", "libcap-ng0"];

export function toolFolderStep(toolbox: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "crun and CRIU",
    done: () => toolbox.ready,
    make: (progress) =>
      makeWhole(toolbox.toolFolder, async (folder) => {
        await extractPackages(folder, PACKAGES, mirror, progress);
        const bin = join(folder, "sandlot-bin");
        await mkdir(bin);
        for (const [name, line] of Object.entries(standIns(toolbox))) {
          await writeFile(join(bin, name), `#!/bin/sh\n${line}\n`);
          await chmod(join(bin, name), 0o755);
        }
      }),
  };
}

/**
 * The one place where shell lines stand in for programs, because others start them by a plain name.
 */
function standIns(toolbox: Toolbox): Record<string, string> {
  return {
    // crun starts CRIU like this.
    criu: `exec ${toolbox.criu.join(" ")} "$@"`,
    // CRIU has tar compress what lies in memory filesystems, which takes longer than all the rest of a checkpoint.
    tar: 'for arg; do shift; [ "$arg" = --gzip ] || set -- "$@" "$arg"; done\nexec /bin/tar "$@"',
  };
}
