/**
 * Makes the private folders of tools, from Debian packages: one with crun, CRIU and the small programs that go into
 * every sandbox, one with runsc, for operators that choose it as the isolation runtime, one with restic, for backups.
 */
import { existsSync } from "node:fs";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { scaled } from "../base/time-factor.ts";
import type { Toolbox } from "../system/toolbox.ts";
import { fetchDebian } from "./fetching.ts";
import { makeAtomically, type SetupStep } from "./step.ts";

/** The oldest Debian suite whose CRIU (≥ 4.2) can checkpoint TCP sockets on kernels from 6.16 on. */
const TOOLS_SUITE = "forky";
const EXTRACT_MS = scaled(600_000);
/**
 * The only Debian suite whose runsc works: the one before has no systrap and kills a sandbox while checkpointing it,
 * the one after panics when a guest starts.
 */
const RUNSC_SUITE = "trixie";
/** The oldest suite whose restic can save the output of a command, and leaves attributes out of a restore. */
const RESTIC_SUITE = "trixie";
const PACKAGES = ["crun", "criu", "libcriu2", "catatonit", "busybox-static", "util-linux", "libcap-ng0"];

export function toolFolderStep(toolbox: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "crun and CRIU",
    done: () => toolbox.ready,
    make: (progress) =>
      makeAtomically(toolbox.toolFolder, async (folder) => {
        await extractPackages(folder, PACKAGES, mirror, progress);
        const placed = (path: string) => join(folder, relative(toolbox.toolFolder, path));
        await mkdir(placed(toolbox.binFolder), { recursive: true });
        for (const [path, lines] of wrapperScripts(toolbox)) {
          await writeFile(placed(path), `#!${lines}\n`);
          await chmod(placed(path), 0o755);
        }
      }),
  };
}

export function runscFolderStep(toolbox: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "runsc",
    done: () => existsSync(toolbox.runsc),
    make: (progress) =>
      makeAtomically(toolbox.runscFolder, (folder) =>
        extractPackages(folder, ["runsc"], mirror, progress, RUNSC_SUITE),
      ),
  };
}

export function resticFolderStep({ resticFolder }: Toolbox, mirror: string | undefined): SetupStep {
  return {
    title: "restic",
    done: () => existsSync(resticFolder),
    make: (progress) =>
      makeAtomically(resticFolder, (folder) => extractPackages(folder, ["restic"], mirror, progress, RESTIC_SUITE)),
  };
}

/** Unpacks packages and their dependencies into a folder without running any of them. */
export async function extractPackages(
  folder: string,
  packages: readonly string[],
  mirror: string | undefined,
  progress: (line: string) => void,
  suite = TOOLS_SUITE,
): Promise<void> {
  const options = [
    "--variant=extract",
    `--include=${packages.join(",")}`,
    // Mirrors lag behind; this relaxes the date check for this folder only. Signatures are still checked.
    '--aptopt=Acquire::Check-Valid-Until "false"',
  ];
  await fetchDebian(folder, { suite, mirror, options, timeoutMs: EXTRACT_MS }, progress);
}

/** Shell scripts that replace programs which crun and CRIU start by a plain name. */
function wrapperScripts({ binFolder, criu }: Toolbox): [path: string, lines: string][] {
  return [
    // crun starts CRIU by this name.
    [join(binFolder, "criu"), `/bin/sh\nexec ${criu.join(" ")} "$@"`],
    // CRIU lets tar compress files on tmpfs, which takes longer than the rest of a checkpoint.
    [
      join(binFolder, "tar"),
      '/bin/sh\nfor arg; do shift; [ "$arg" = --gzip ] || set -- "$@" "$arg"; done\nexec /bin/tar "$@"',
    ],
  ];
}
