/** What CRIU was doing when a server was killed. It goes on without the server, so the next one has to know. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CHECKPOINT_MS } from "../contract/limits.ts";
import { removeCgroups } from "./cgroups.ts";
import { toolCgroup } from "./criu.ts";
import type { DataFolder } from "./data-folder.ts";
import { freezerOf } from "./freezer.ts";

const LOOK_EVERY_MS = 20;

/** A half restored sandbox is nobody's: whoever is making it is ended first, then what was made can be found and removed. */
export async function endRestores(data: DataFolder): Promise<void> {
  const folder = freezerOf(data.cgroup);
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    if (name.endsWith(".restore")) await removeCgroups(`${data.cgroup}/${name}`);
  }
}

/** CRIU that was ended in the middle of writing could leave its hand in the processes; it is waited for. */
export async function waitForDump(data: DataFolder, id: string): Promise<void> {
  const members = join(freezerOf(toolCgroup(data, id, "dump")), "cgroup.procs");
  const deadline = performance.now() + CHECKPOINT_MS;
  while (existsSync(members) && readFileSync(members, "utf8").trim() !== "" && performance.now() < deadline) {
    await Bun.sleep(LOOK_EVERY_MS);
  }
}
