/** Leftovers of servers whose data folder is gone, in the tests' network. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Network } from "../sandbox/network/network.ts";
import { ANY_INTERFACE } from "../sandbox/network/slot-chains.ts";
import { cgroupTrees } from "../system/cgroup/cgroups.ts";
import { freezerOf } from "../system/cgroup/freezer.ts";
import { removeCgroups } from "../system/cgroup/removal.ts";
import { attempt, run } from "../system/command.ts";
import { DataFolder } from "../system/data-folder.ts";
import { isMountPoint } from "../system/mount/mount-namespace.ts";
import { serverFileIn } from "../system/server-process.ts";
import { startTicks } from "../system/start-ticks.ts";
import { mount } from "../system/syscalls.ts";
import { removeOrphanedServers } from "./orphaned-servers.ts";

const made: DataFolder[] = [];
const ours = newServer();
afterAll(async () => {
  for (const { tag, runFolder, path, cgroup } of made) {
    await attempt(["nft", "delete", "table", "inet", `sandlot_${tag}`]);
    await removeCgroups(cgroup);
    for (const folder of [runFolder, path]) rmSync(folder, { recursive: true, force: true });
  }
});

function newServer(prepare: (runFolder: string) => void = () => undefined): DataFolder {
  const data = new DataFolder(mkdtempSync(join(tmpdir(), "sandlot-gone-")));
  made.push(data);
  mkdirSync(data.runFolder, { recursive: true });
  prepare(data.runFolder);
  data.makeRunFolder();
  return data;
}

/** As one is that was killed some time ago, with its network. */
async function leftServer(prepare?: (runFolder: string) => void): Promise<DataFolder> {
  const data = newServer(prepare);
  await new Network(data).open();
  rmSync(data.path, { recursive: true });
  return data;
}

function untouchedFor(data: DataFolder, seconds: number): void {
  const then = Date.now() / 1000 - seconds;
  utimesSync(data.runFolder, then, then);
}

async function removeLeft(): Promise<void> {
  await removeOrphanedServers(ours, (_, error) => {
    throw error;
  });
}

const tables = async () => await run(["nft", "list", "tables", "inet"]);

test.each([
  ["on a disk or where /run lies", () => undefined],
  ["in memory of its own", (folder: string) => mount("tmpfs", folder, "tmpfs", 0, "mode=711")],
])("leftovers of a server without its data folder are removed, with a run folder %s", async (_, prepare) => {
  const data = await leftServer(prepare);
  expect(existsSync(join(data.runFolder, "net"))).toBe(true);
  for (const tree of cgroupTrees()) mkdirSync(join(tree, data.cgroup, "sandbox"), { recursive: true });
  untouchedFor(data, 3600);
  await removeLeft();
  expect(existsSync(data.runFolder)).toBe(false);
  expect(isMountPoint(data.runFolder)).toBe(false);
  expect(await tables()).not.toContain(`sandlot_${data.tag}`);
  for (const tree of cgroupTrees()) expect(existsSync(join(tree, data.cgroup))).toBe(false);
});

const kept: Record<string, (data: DataFolder) => Promise<void>> = {
  "has its data folder": async (data) => void new DataFolder(data.path),
  "runs, with a data folder that only it sees": async ({ runFolder }) =>
    writeFileSync(serverFileIn(runFolder), `${process.pid} ${startTicks(process.pid)}`),
  "has sandboxes that run on": async ({ cgroup }) => {
    const sleeper = Bun.spawn(["sleep", "1000"]);
    const folder = join(freezerOf(cgroup), "sandbox");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "cgroup.procs"), String(sleeper.pid));
  },
  "was there before servers said where their data is": async ({ runFolder }) => rmSync(join(runFolder, "data-folder")),
};

test.each(Object.keys(kept))("a server that %s keeps its resources", async (name) => {
  const data = await leftServer();
  // The same mark as before, as a folder has that can be seen again.
  mkdirSync(data.path);
  writeFileSync(join(data.path, "server.json"), JSON.stringify({ tag: data.tag }));
  if (name !== "has its data folder") rmSync(data.path, { recursive: true });
  await kept[name]?.(data);
  untouchedFor(data, 3600);
  await removeLeft();
  expect(existsSync(data.runFolder)).toBe(true);
  expect(await tables()).toContain(`sandlot_${data.tag}`);
});

test("a server that may be about to start keeps its resources", async () => {
  const data = await leftServer();
  await removeLeft();
  expect(existsSync(data.runFolder)).toBe(true);
});

test("a firewall table without a server is removed, unless an interface of that server is left", async () => {
  const [bare, guarding] = [await leftServer(), await leftServer()];
  for (const { runFolder } of [bare, guarding]) rmSync(runFolder, { recursive: true });
  const name = `${ANY_INTERFACE}${guarding.tag}-2`;
  await run(["ip", "link", "add", name, "type", "veth", "peer", "name", "goneinner"]);
  try {
    await removeLeft();
    expect(await tables()).not.toContain(`sandlot_${bare.tag}`);
    expect(await tables()).toContain(`sandlot_${guarding.tag}`);
  } finally {
    await run(["ip", "link", "delete", name]);
  }
});
