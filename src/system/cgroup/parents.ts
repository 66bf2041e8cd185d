/**
 * The cgroups above those of sandboxes. With cgroup v2 controllers are passed on from level to level, so servers, and
 * crun for them, enable some in the machine's root cgroup. The first server notes which were enabled before; the last
 * one to go takes the others back.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { lockOfAllServers, noteOfAllServers, readText } from "../data-folder.ts";
import { cgroupTrees, V2_MARK } from "./cgroups.ts";

/** Those that limit a sandbox. Without one of the first, a restored sandbox would have no limit where it had one. */
const NEEDED_CONTROLLERS = ["cpu", "memory", "pids"];
const WANTED_CONTROLLERS = [...NEEDED_CONTROLLERS, "cpuset", "io"];
const PASSED_ON = "cgroup.subtree_control";
const LOCK = "cgroups";

/** Where cgroups of servers are; the machine's unless a test says otherwise. */
interface Place {
  trees: readonly string[];
  /** The cgroups above those of all servers. */
  tops: readonly string[];
  /** File with what each root of v2 passed on before. */
  note: string;
  wanted: readonly string[];
}

/** Above those of all servers' edges. */
export const EDGE_TOP = "sandlot-edge";

function machine(): Place {
  return {
    trees: cgroupTrees(),
    tops: ["sandlot", EDGE_TOP],
    note: noteOfAllServers("controllers-before.json"),
    wanted: WANTED_CONTROLLERS,
  };
}

/**
 * Makes a cgroup that only holds others, so that they can be limited. crun does this for what it makes; CRIU takes it
 * for granted. With v1, a new cpuset is empty.
 */
export function makeParentCgroup(path: string, place = machine()): void {
  using _lock = lockOfAllServers(LOCK);
  noteControllers(place);
  const levels = path.split("/").filter(Boolean);
  for (const tree of place.trees) {
    let folder = tree;
    for (const level of ["", ...levels]) {
      const above = folder;
      folder = join(folder, level);
      mkdirSync(folder, { recursive: true });
      if (isV2(folder)) passControllersOn(folder, place.wanted);
      else if (level !== "")
        for (const file of ["cpuset.cpus", "cpuset.mems"]) inherit(join(above, file), join(folder, file));
    }
  }
}

/** The cgroups above all servers go with the last of them, and with them what servers have enabled. */
export function removeEmptyParents(place = machine()): void {
  using _lock = lockOfAllServers(LOCK);
  const all = place.trees.flatMap((tree) => place.tops.map((top) => join(tree, top)));
  const parents = all.filter((parent) => existsSync(parent));
  if (parents.map(removed).includes(false)) return;
  const before = readNote(place);
  for (const [tree, controllers] of Object.entries(before)) takeBack(tree, controllers);
  rmSync(place.note, { force: true });
}

/** False while another server's cgroups are below. */
function removed(folder: string): boolean {
  if (readdirSync(folder, { withFileTypes: true }).some((entry) => entry.isDirectory())) return false;
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

/** Once, by the first of all servers: a note without a server is of before a reboot. */
function noteControllers({ trees, tops, note }: Place): void {
  const roots = trees.filter(isV2);
  if (roots.length === 0 || (existsSync(note) && roots.some((tree) => tops.some((top) => existsSync(join(tree, top))))))
    return;
  const before = Object.fromEntries(roots.map((tree) => [tree, words(join(tree, PASSED_ON))]));
  writeFileSync(note, JSON.stringify(before), { mode: 0o600 });
}

function readNote({ note }: Place): Record<string, string[]> {
  return JSON.parse(readText(note) ?? "{}") as Record<string, string[]>;
}

function takeBack(root: string, before: readonly string[]): void {
  for (const controller of words(join(root, PASSED_ON)).filter((name) => !before.includes(name))) {
    try {
      writeFileSync(join(root, PASSED_ON), `-${controller}`);
    } catch {
      // Another cgroup passes it on by now.
    }
  }
}

function passControllersOn(folder: string, wanted: readonly string[]): void {
  // One at a time: some cannot be passed on where processes are, and the others still can.
  for (const controller of words(join(folder, V2_MARK)).filter((name) => wanted.includes(name))) {
    try {
      writeFileSync(join(folder, PASSED_ON), `+${controller}`);
    } catch (cause) {
      if (NEEDED_CONTROLLERS.includes(controller)) {
        throw new Fault(
          500,
          `${folder} cannot pass on its controller "${controller}", so sandboxes cannot be limited`,
          { cause },
        );
      }
    }
  }
}

function isV2(folder: string): boolean {
  return existsSync(join(folder, V2_MARK));
}

function words(file: string): string[] {
  return readFileSync(file, "utf8").trim().split(" ").filter(Boolean);
}

function inherit(from: string, to: string): void {
  if (existsSync(to) && readFileSync(to, "utf8").trim() === "") writeFileSync(to, readFileSync(from, "utf8"));
}
