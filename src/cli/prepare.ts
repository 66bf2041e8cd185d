/** Prerequisites of `up` and the tests: tools, guest and base image, with progress on the terminal. */
import { Fault } from "../contract/fault.ts";
import { guestFolder } from "../setup/guest-folder.ts";
import { setUp } from "../setup/setup.ts";
import type { SetupStep } from "../setup/step.ts";
import { runscFolderStep } from "../setup/tool-folder.ts";
import { Toolbox } from "../system/toolbox.ts";
import { Progress } from "./progress.ts";
import type { Config } from "./settings/config.ts";

export function requireRoot(): void {
  if (process.getuid?.() !== 0) throw new Fault(403, "this needs root. FIX: run it with sudo");
}

/** Installs runsc, unless the operator names a program. */
export function runscSteps({ cacheFolder, debianMirror, runsc }: Config): SetupStep[] {
  return runsc === undefined ? [runscFolderStep(new Toolbox(cacheFolder), debianMirror)] : [];
}

/** Returns whether anything had to be made. */
export async function prepare(config: Config, further: readonly SetupStep[] = [], first?: SetupStep): Promise<boolean> {
  using progress = new Progress();
  return await setUp({
    cacheFolder: config.cacheFolder,
    debianMirror: config.debianMirror,
    first,
    further,
    report({ kind, text }) {
      if (kind === "begin") progress.begin(`setting up ${text}`);
      else if (kind === "line") progress.line(text);
      else if (kind === "end") progress.end();
      else console.error(`sandlot: ${text}`);
    },
  });
}

export function currentGuestFolder(config: Config): string {
  return guestFolder(new Toolbox(config.cacheFolder));
}
