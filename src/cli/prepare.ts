/** What `up`, `doctor` and `bench` need done first: tools, guest and base image, with progress on the terminal. */
import { Fault } from "../contract/fault.ts";
import { guestFolder } from "../host/setup/guest-folder.ts";
import { setUp } from "../host/setup/setup.ts";
import { Toolbox } from "../host/toolbox.ts";
import type { Config } from "./config.ts";

const LINE_EVERY_MS = 2_000;

export function demandRoot(): void {
  if (process.getuid?.() !== 0) throw new Fault(403, "this needs root. FIX: sudo npm start");
}

/** Answers whether anything had to be made. */
export async function prepare(config: Config): Promise<boolean> {
  let begun = 0;
  let shown = 0;
  return await setUp({
    cacheFolder: config.cacheFolder,
    debianMirror: config.debianMirror,
    report({ kind, text }) {
      const now = performance.now();
      if (kind === "begin") {
        begun = now;
        shown = now;
        console.error(`sandlot: setting up ${text}`);
      } else if (kind === "line" && now - shown >= LINE_EVERY_MS) {
        shown = now;
        console.error(`  ${Math.round((now - begun) / 1000)} s  ${text.slice(0, 100)}`);
      } else if (kind === "end") {
        console.error(`  done in ${Math.round((now - begun) / 1000)} s`);
      } else if (kind === "wait") {
        console.error(`sandlot: ${text}`);
      }
    },
  });
}

export function currentGuestFolder(config: Config): string {
  return guestFolder(new Toolbox(config.cacheFolder));
}
