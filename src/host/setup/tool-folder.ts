/** The private folder with crun, CRIU and the small programs that go into every sandbox. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../command.ts";
import type { Toolbox } from "../toolbox.ts";
import { lines } from "./packages.ts";
import { makeWhole, type SetupStep } from "./step.ts";

/** The oldest Debian suite whose CRIU (≥ 4.2) can checkpoint TCP sockets on kernels from 6.16 on. */
const SUITE = "forky";
const PACKAGES = ["crun", "criu", "libcriu2", "catatonit", "busybox-static", "util-linux", "libcap-ng0"];
const MAKE_MS = 600_000;

export function toolFolderStep(toolbox: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "crun and CRIU",
    done: () => toolbox.ready,
    make: (progress) =>
      makeWhole(toolbox.toolFolder, async (folder) => {
        await run(
          [
            "mmdebstrap",
            "--variant=extract",
            `--include=${PACKAGES.join(",")}`,
            // Mirrors lag behind; this relaxes the date check for this folder only. Signatures are still checked.
            '--aptopt=Acquire::Check-Valid-Until "false"',
            SUITE,
            folder,
            ...(mirror === undefined ? [] : [mirror]),
          ],
          { timeoutMs: MAKE_MS, onOutput: lines(progress) },
        );
        // crun starts CRIU by its plain name; this is the one place where a shell line stands in for it.
        const bin = join(folder, "sandlot-bin");
        await mkdir(bin);
        const wrapper = join(bin, "criu");
        await writeFile(wrapper, `#!/bin/sh\nexec ${toolbox.criu.join(" ")} "$@"\n`);
        await chmod(wrapper, 0o755);
      }),
  };
}
