/**
 * Paths of the tools on this machine. crun and CRIU come from a private folder of Debian packages, because the versions
 * in stable distributions cannot checkpoint sockets on current kernels. They run through the loader of that folder and
 * so need none of the machine's own libraries.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../contract/fault.ts";

const ARCHITECTURES: Record<string, { triplet: string; loader: string; bun: string }> = {
  x64: { triplet: "x86_64-linux-gnu", loader: "ld-linux-x86-64.so.2", bun: "bun-linux-x64" },
  arm64: { triplet: "aarch64-linux-gnu", loader: "ld-linux-aarch64.so.1", bun: "bun-linux-aarch64" },
};

export function architecture() {
  const found = ARCHITECTURES[process.arch];
  if (found === undefined) throw new Fault(500, `this machine is ${process.arch}; Sandlot runs on x64 and arm64`);
  return found;
}

/** Each is increased when the folder's content changes, so that an old folder is not mistaken for the new one. */
const TOOL_FOLDER = "tools-5";

const RUNSC_FOLDER = "runsc-1";

const RESTIC_FOLDER = "restic-1";

export class Toolbox {
  readonly toolFolder: string;

  constructor(readonly cacheFolder: string) {
    this.toolFolder = join(cacheFolder, TOOL_FOLDER);
  }

  get libraries(): string {
    return join(this.toolFolder, "usr/lib", architecture().triplet);
  }

  /** A command line that runs a program of the tool folder through that folder's own loader. */
  private through(program: string): string[] {
    return [
      join(this.libraries, architecture().loader),
      "--library-path",
      this.libraries,
      join(this.toolFolder, program),
    ];
  }

  get crun(): string[] {
    return this.through("usr/bin/crun");
  }

  get criu(): string[] {
    return this.through("usr/sbin/criu");
  }

  /** Installed only where it was chosen as an isolation runtime; statically linked. */
  get runsc(): string {
    return join(this.runscFolder, "usr/bin/runsc");
  }

  get runscFolder(): string {
    return join(this.cacheFolder, RUNSC_FOLDER);
  }

  /** Installed by the first backup or restore. A command line that needs none of the machine's libraries. */
  get restic(): string[] {
    const libraries = join(this.resticFolder, "usr/lib", architecture().triplet);
    const program = join(this.resticFolder, "usr/bin/restic");
    return [join(libraries, architecture().loader), "--library-path", libraries, program];
  }

  get resticFolder(): string {
    return join(this.cacheFolder, RESTIC_FOLDER);
  }

  /** A folder for PATH: crun finds `criu` in it by name, and CRIU its own helpers. */
  get binFolder(): string {
    return join(this.toolFolder, "sandlot-bin");
  }

  get busybox(): string {
    return join(this.toolFolder, "usr/bin/busybox");
  }

  get ready(): boolean {
    return existsSync(join(this.binFolder, "criu"));
  }
}
