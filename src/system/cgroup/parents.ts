/**
 * The parent cgroups of sandboxes. With cgroup v2, controllers are enabled level by level, so servers, and crun for
 * them, enable some in the machine's root cgroup. The first server records which ones were enabled before; the last one
 * to go disables the others.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { lockOfAllServers, noteOfAllServers, readText } from "../data-folder.ts";
import { cgroupTrees, V2_MARK } from "./cgroups.ts";

/** Without one of the first three, a restored sandbox would lack a limit it had before. */
const NEEDED_CONTROLLERS = ["cpu", "memory", "pids"];
const WANTED_CONTROLLERS = [...NEEDED_CONTROLLERS, "cpuset", "io"];
const PASSED_ON = "cgroup.subtree_control";
const LOCK = "cgroups";

/** Where the servers' cgroups are: on the machine, or in a test's folders. */
interface Place {
  trees: readonly string[];
  /** The parent cgroups of all servers. */
  tops: readonly string[];
  /** The file that records what each v2 root had enabled before. */
  note: string;
  wanted: readonly string[];
}

/** The parent of all servers' edge cgroups. */
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
 * Makes a cgroup that only holds others, so that they can be limited. crun does this for its own containers; CRIU
 * expects it. With v1, a new cpuset is empty and must be filled.
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

/** Removes the common parent cgroups with the last server, and disables the controllers that servers have enabled. */
export function removeEmptyParents(place = machine()): void {
  using _lock = lockOfAllServers(LOCK);
  const all = place.trees.flatMap((tree) => place.tops.map((top) => join(tree, top)));
  const parents = all.filter((parent) => existsSync(parent));
  if (parents.map(removed).includes(false)) return;
  const before = readNote(place);
  // A process may see fewer trees than the server did.
  for (const [tree, controllers] of Object.entries(before)) if (isV2(tree)) takeBack(tree, controllers);
  rmSync(place.note, { force: true });
}

/** False while another server has cgroups below. */
function removed(folder: string): boolean {
  if (readdirSync(folder, { withFileTypes: true }).some((entry) => entry.isDirectory())) return false;
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

/** Done once, by the first server. A record without any server is from before a reboot. */
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
      // Another cgroup has it enabled by now.
    }
  }
}

function passControllersOn(folder: string, wanted: readonly string[]): void {
  // One at a time: some cannot be enabled in a cgroup with processes, but the others can.
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
