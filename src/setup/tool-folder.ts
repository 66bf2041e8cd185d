/** Makes the private folder with crun, CRIU and the small programs that go into every sandbox. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
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
        const placed = (path: string) => join(folder, relative(toolbox.toolFolder, path));
        await mkdir(placed(toolbox.simpleBinFolder), { recursive: true });
        for (const [path, lines] of standIns(toolbox)) {
          await writeFile(placed(path), `#!${lines}\n`);
          await chmod(placed(path), 0o755);
        }
      }),
  };
}

/** Shell scripts that replace programs which crun and CRIU start by a plain name. */
function standIns({ binFolder, simpleBinFolder, busybox, criu }: Toolbox): [path: string, lines: string][] {
  return [
    // crun starts CRIU by this name.
    [join(binFolder, "criu"), `/bin/sh\nexec ${criu.join(" ")} "$@"`],
    // CRIU lets tar compress files on tmpfs, which takes longer than the rest of a checkpoint.
    [
      join(binFolder, "tar"),
      '/bin/sh\nfor arg; do shift; [ "$arg" = --gzip ] || set -- "$@" "$arg"; done\nexec /bin/tar "$@"',
    ],
    // CRIU's last argument is the folder to unpack into.
    [
      join(simpleBinFolder, "tar"),
      `${busybox} sh\nfor folder; do :; done\nexec ${busybox} tar --numeric-owner -xpf - -C "$folder"`,
    ],
  ];
}
