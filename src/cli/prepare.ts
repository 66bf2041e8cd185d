/** What `up` and the tests need done first: tools, guest and base image, with progress on the terminal. */
import { Fault } from "../contract/fault.ts";
import { guestFolder } from "../host/setup/guest-folder.ts";
import { runscFolderStep } from "../host/setup/runsc-folder.ts";
import { setUp } from "../host/setup/setup.ts";
import type { SetupStep } from "../host/setup/step.ts";
import { templateImageSteps } from "../host/setup/template-image.ts";
import { Toolbox } from "../host/system/toolbox.ts";
import type { Config } from "./config.ts";

const LINE_EVERY_MS = 2_000;
/** A step that prints nothing for this long is shown to be alive. */
const SIGN_OF_LIFE_MS = 10_000;

export function demandRoot(): void {
  if (process.getuid?.() !== 0) throw new Fault(403, "this needs root. FIX: sudo npm start");
}

/** What the wall runsc needs, unless the operator names a program of his own. */
export function runscSteps({ cacheFolder, debianMirror, runsc }: Config): SetupStep[] {
  return runsc === undefined ? [runscFolderStep(new Toolbox(cacheFolder), debianMirror)] : [];
}

/** The root filesystems of templates that come with Sandlot. */
export function templateSteps({ cacheFolder, debianMirror, templates }: Config): SetupStep[] {
  return templates.flatMap((definition) => templateImageSteps(cacheFolder, debianMirror, definition));
}

/** Answers whether anything had to be made. */
export async function prepare(config: Config, further: readonly SetupStep[] = []): Promise<boolean> {
  let begun = 0;
  let shown = 0;
  let latest = "";
  const show = () => {
    shown = performance.now();
    console.error(`  ${Math.round((shown - begun) / 1000)} s  ${latest.slice(0, 100)}`);
  };
  const alive = setInterval(() => {
    if (latest !== "" && performance.now() - shown >= SIGN_OF_LIFE_MS) show();
  }, SIGN_OF_LIFE_MS / 2);
  try {
    return await setUp({
      cacheFolder: config.cacheFolder,
      debianMirror: config.debianMirror,
      further,
      report({ kind, text }) {
        const now = performance.now();
        if (kind === "begin") {
          [begun, shown, latest] = [now, now, "working"];
          console.error(`sandlot: setting up ${text}`);
        } else if (kind === "line") {
          latest = text;
          if (now - shown >= LINE_EVERY_MS) show();
        } else if (kind === "end") {
          latest = "";
          console.error(`  done in ${Math.round((now - begun) / 1000)} s`);
        } else {
          console.error(`sandlot: ${text}`);
        }
      },
    });
  } finally {
    clearInterval(alive);
  }
}

export function currentGuestFolder(config: Config): string {
  return guestFolder(new Toolbox(config.cacheFolder));
}
