/**
 * What CRIU was doing when a server was killed: it goes on without the server, so the next one has to know. And what it
 * leaves itself.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { freezerOf } from "../../cgroup/freezer.ts";
import { endAll } from "../../cgroup/removal.ts";
import { CHECKPOINT_MS, RESTORE_MS } from "../../limits.ts";
import type { DataFolder } from "../../system/data-folder.ts";
import { toolCgroup } from "./criu.ts";

const LOOK_EVERY_MS = 20;
/** CRIU knows no other place for it. */
const RESTORE_FOLDERS = "/tmp";
const RESTORE_FOLDER = /^\.criu\.mntns\.[A-Za-z0-9]{6}$/;

/**
 * A half restored sandbox is nobody's: whoever is making it is ended first, then what was made can be found and
 * removed.
 */
export async function endRestores(data: DataFolder): Promise<void> {
  const folder = freezerOf(data.cgroup);
  if (!existsSync(folder)) return;
  const restores = readdirSync(folder).filter((name) => name.endsWith(".restore"));
  await endAll(restores.map((name) => `${data.cgroup}/${name}`));
}

/** CRIU that was ended in the middle of writing could leave its hand in the processes; it is waited for. */
export async function waitForDump(data: DataFolder, id: string): Promise<void> {
  const members = join(freezerOf(toolCgroup(data, id, "dump")), "cgroup.procs");
  const deadline = performance.now() + CHECKPOINT_MS;
  while (existsSync(members) && readFileSync(members, "utf8").trim() !== "" && performance.now() < deadline) {
    await Bun.sleep(LOOK_EVERY_MS);
  }
}

/**
 * The empty folder, made for the mounts of a restore, that CRIU leaves when it is killed. One that may still be in use,
 * by whichever server, is too young to go: taken away, it would take the mounts with it.
 */
export function removeRestoreFolders(folder = RESTORE_FOLDERS): void {
  const before = Date.now() - 2 * RESTORE_MS;
  for (const name of readdirSync(folder).filter((each) => RESTORE_FOLDER.test(each))) {
    const path = join(folder, name);
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (!found?.isDirectory() || found.uid !== 0 || found.mtimeMs > before) continue;
    try {
      rmdirSync(path);
    } catch {
      // Another server was quicker, or it is not what it looks like. Whatever it is, a start must not fail of it.
    }
  }
}
