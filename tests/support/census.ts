/**
 * Counts everything on the machine that belongs to one server, without asking the server, so that leftovers of a crash
 * show up.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { cgroupTrees } from "../../src/system/cgroup/cgroups.ts";
import { attempt } from "../../src/system/command.ts";
import { isWaitingCriu } from "./waiting-criu.ts";

export const NOTHING = {
  processes: 0,
  namespaces: 0,
  cgroups: 0,
  mounts: 0,
  loopDevices: 0,
  interfaces: 0,
  /** Slots with firewall rules. */
  ruledSlots: 0,
  runFolders: 0,
  disks: 0,
  crunRecords: 0,
  runscRecords: 0,
};

type Census = typeof NOTHING;

export function tagOf(dataFolder: string): string {
  return (JSON.parse(readFileSync(join(dataFolder, "server.json"), "utf8")) as { tag: string }).tag;
}

/**
 * Counts sandboxes only, not what the server itself needs: its pool of disks, its table, one CRIU that waits in a
 * cgroup.
 */
export async function census(dataFolder: string): Promise<Census> {
  const tag = tagOf(dataFolder);
  const runFolder = `/run/sandlot/${tag}`;
  const all = processesIn(`/sandlot/${tag}`);
  const waiting = all.filter(isWaitingCriu).slice(0, 1);
  const processes = all.filter((pid) => !waiting.includes(pid));
  const cgroups = cgroupTrees().reduce((sum, tree) => sum + foldersBelow(join(tree, `sandlot/${tag}`)), 0);
  const links = await attempt(["ip", "-json", "link", "show"]);
  const table = await attempt(["nft", "-j", "list", "table", "inet", `sandlot_${tag}`]);
  return {
    processes: processes.length,
    namespaces: namespacesOf(processes),
    cgroups: cgroups - waiting.length,
    mounts: mountsBelow(runFolder, `${runFolder}/sandboxes/`),
    loopDevices: await loopDevicesOn(`${dataFolder}/disks`, runFolder),
    interfaces: (JSON.parse(links.stdout) as { ifname: string }[]).filter((l) => l.ifname.startsWith(`slot${tag}-`))
      .length,
    ruledSlots: table.exitCode === 0 ? slotsNamedIn(table.stdout) : 0,
    runFolders: namesIn(`${runFolder}/sandboxes`).length,
    disks: await disksIn(runFolder, dataFolder),
    crunRecords: namesIn(`${runFolder}/crun`).filter((name) => !name.startsWith(".")).length,
    runscRecords: namesIn(`${runFolder}/runsc`).length,
  };
}

/**
 * Waits until the named parts of the census are as expected. Loop devices free themselves a moment after their last
 * process, and the resources of a paused sandbox go after its processes.
 */
export async function settledCensus(
  dataFolder: string,
  wanted: Readonly<Partial<Census>>,
  withinMs = 120_000,
): Promise<Census> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const now = await census(dataFolder);
    if (Bun.deepEquals({ ...now, ...wanted }, now) || performance.now() > deadline) return now;
    await Bun.sleep(50);
  }
}

function processesIn(cgroup: string): number[] {
  const found = new Set<number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (!readFileSync(`/proc/${name}/cgroup`, "utf8").includes(`${cgroup}/`)) continue;
      // An ended process holds nothing; its entry goes when the machine's first process reaps it.
      if (!/^State:\s+[ZX]/m.test(readFileSync(`/proc/${name}/status`, "utf8"))) found.add(Number(name));
    } catch {
      // It ended while we looked.
    }
  }
  return [...found];
}

function namespacesOf(pids: number[]): number {
  const found = new Set<string>();
  for (const pid of pids) {
    for (const kind of ["mnt", "net", "pid", "ipc", "uts", "user", "cgroup", "time"]) {
      try {
        found.add(readlinkSync(`/proc/${pid}/ns/${kind}`));
      } catch {
        // It ended while we looked.
      }
    }
  }
  return found.size;
}

function foldersBelow(folder: string): number {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).length;
}

/** In the machine's own mount table and in the server's. */
function mountsBelow(runFolder: string, prefix: string): number {
  const server = pidOfServer(runFolder);
  const tables = [readFileSync("/proc/self/mountinfo", "utf8"), server === undefined ? "" : mountsOf(server)];
  return tables
    .join("\n")
    .split("\n")
    .filter((line) => line.split(" ")[4]?.startsWith(prefix)).length;
}

function pidOfServer(runFolder: string): number | undefined {
  const file = join(runFolder, "server.pid");
  if (!existsSync(file)) return undefined;
  return Number(readFileSync(file, "utf8").split(" ")[0]);
}

/** Empty for a process that has ended, even if it is still in the process table. */
function mountsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/mountinfo`, "utf8");
  } catch {
    return "";
  }
}

/** Loop devices with a disk in this pool, deleted or not: the file's name alone could be another server's. */
async function loopDevicesOn(pool: string, runFolder: string): Promise<number> {
  const device = await inMountNamespace(runFolder, ["stat", "--format", "%d", pool]);
  const listed = await attempt(["losetup", "--list", "--json", "--output", "NAME,BACK-FILE,BACK-MAJ:MIN"]);
  if (device.exitCode !== 0 || listed.stdout.trim() === "") return 0;
  const { loopdevices } = JSON.parse(listed.stdout) as { loopdevices: Record<string, string | null>[] };
  return loopdevices.filter((loop) => {
    const [major = 0, minor = 0] = (loop["back-maj:min"] ?? "").split(":").map(Number);
    const number = (minor & 0xff) + major * 256 + (minor >>> 8) * 2 ** 20;
    return number === Number(device.stdout) && /\/d[0-9a-f]+\.img/.test(loop["back-file"] ?? "");
  }).length;
}

/** The pool of disks is mounted in the server's namespace only. */
async function inMountNamespace(runFolder: string, command: string[]) {
  const pin = `${runFolder}/world/mnt`;
  return await attempt(existsSync(pin) ? ["nsenter", `--mount=${pin}`, "--", ...command] : command);
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

async function disksIn(runFolder: string, dataFolder: string): Promise<number> {
  const listing = await inMountNamespace(runFolder, ["ls", `${dataFolder}/disks`]);
  return listing.stdout.split("\n").filter(isDisk).length;
}

function isDisk(name: string): boolean {
  return /^d[0-9a-f]+\.img$/.test(name);
}

/** By rules in their chains, and by sets. The chains themselves stay, empty. */
function slotsNamedIn(json: string): number {
  const { nftables } = JSON.parse(json) as { nftables: { rule?: { chain: string }; set?: { name: string } }[] };
  const names = nftables.flatMap(({ rule, set }) => rule?.chain ?? set?.name ?? []);
  return new Set(names.flatMap((name) => /^slot_(\d+)_/.exec(name)?.[1] ?? [])).size;
}
