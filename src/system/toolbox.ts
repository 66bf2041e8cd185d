/**
 * Where the tools of this machine are. crun and CRIU come from a private folder of Debian packages, because the ones
 * that stable distributions ship cannot checkpoint sockets on current kernels; they run through the loader of that
 * folder and so need nothing of the machine's own libraries.
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

/** Each bumped when what is in the folder changes, so that an old folder is not taken for the new one. */
const TOOL_FOLDER = "tools-5";

const RUNSC_FOLDER = "runsc-1";

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

  /** There only where somebody chose it as a wall; it needs no library of anybody's. */
  get runsc(): string {
    return join(this.runscFolder, "usr/bin/runsc");
  }

  get runscFolder(): string {
    return join(this.cacheFolder, RUNSC_FOLDER);
  }

  /**
   * A folder for PATH: `criu` is found in it by its plain name, as crun looks for it, and what CRIU itself looks for.
   */
  get binFolder(): string {
    return join(this.toolFolder, "sandlot-bin");
  }

  /** The same, with a tar that knows only folders, small files and symbolic links, and unpacks them sooner. */
  get simpleBinFolder(): string {
    return join(this.binFolder, "simple");
  }

  get busybox(): string {
    return join(this.toolFolder, "usr/bin/busybox");
  }

  get ready(): boolean {
    return existsSync(join(this.binFolder, "criu"));
  }
}
