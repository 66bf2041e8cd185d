/**
 * A paused sandbox goes from one server to another with its memory, while both serve. They have separate data and cache
 * folders and share only a folder of blobs. Both are on this machine, so kernel, processor and CRIU are the same:
 * docs/decisions/074-sandboxes-between-machines.md says what that leaves open.
 */
import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { FETCH_IMAGE } from "../../../src/builder/registry/fetch-tools.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { noteImage } from "../../../src/images/cached-images.ts";
import { imageFolder } from "../../../src/images/image-folder.ts";
import { copyStore } from "../../../src/store/copy.ts";
import { attempt, run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { MountNamespace } from "../../../src/system/mount/mount-namespace.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { newDataFolder, startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const PROGRAM = join(import.meta.dir, "../../support/programs/transfer.ts");
const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const DAY_MS = 24 * 3_600_000;
const TRANSFER_MS = 600_000;

const folder = foldersOfFile();
const scratch = `${newDataFolder("fleet")}-blobs`;
/** Sandboxes read it as other users, so not below the private folder of all tests. */
const otherCache = `/var/tmp/sandlot-fleet-cache-${process.pid}`;
const newNode = { SANDLOT_READY: "0", SANDLOT_CACHE: otherCache };
const [dataA, dataB] = [folder("node-a"), folder("node-b")];

interface Node {
  data: string;
  cache: string;
}
const [a, b]: [Node, Node] = [
  { data: dataA, cache: CACHE },
  { data: dataB, cache: otherCache },
];

afterAll(async () => {
  if (existsSync(otherCache)) {
    await attempt([process.execPath, MAIN, "down"], { env: serverEnv(dataB, newNode), timeoutMs: 120_000 });
  }
  for (const path of [scratch, otherCache]) rmSync(path, { recursive: true, force: true });
});

/** Prints its state again and again: what is in its memory, what it reads from open files, which files it saw made. */
const WITNESS = `
import ctypes, json, os, struct, time
watch = ctypes.CDLL(None).inotify_init1(os.O_NONBLOCK)
os.makedirs("/tmp/watched", exist_ok=True)
for folder in ("/tmp/watched", "/usr/share/doc"):
    assert ctypes.CDLL(None).inotify_add_watch(watch, folder.encode(), 0x100) > 0
deleted = open("/tmp/deleted", "w+")
deleted.write("still open")
deleted.flush()
os.unlink("/tmp/deleted")
lower = open("/etc/debian_version")
state = {"pid": os.getpid(), "token": os.urandom(8).hex(), "n": 0, "made": []}
while True:
    state["n"] += 1
    try:
        events = os.read(watch, 65536)
    except BlockingIOError:
        events = b""
    while events:
        size = struct.unpack("iIII", events[:16])[3]
        state["made"].append(events[16:16 + size].rstrip(b"\\0").decode())
        events = events[16 + size:]
    for name, file in (("deleted", deleted), ("lower", lower)):
        file.seek(0)
        state[name] = file.read().strip()
    with open("/tmp/state.new", "w") as file:
        json.dump(state, file)
    os.rename("/tmp/state.new", "/tmp/state")
    time.sleep(0.02)
`;

/** Changes of files and folders of the image: content, name, removal, one of two names of a file. */
const CHANGES = `
echo changed >> /etc/bash.bashrc; rm /etc/issue; mv /usr/share/zoneinfo /usr/share/zones; mkdir /usr/share/zoneinfo
echo new > /usr/share/zones/new; printf x >> /usr/bin/perl`;
const PERL = "/usr/bin/perl $(find /usr/bin -samefile /usr/bin/perl ! -name perl)";
const LOOK = `
tail -n 1 /etc/bash.bashrc; ls /etc/issue /usr/share/zoneinfo 2>&1; ls /usr/share/zones | sha256sum; ls -A / /etc /usr/bin | sha256sum
cat ${PERL} | sha256sum; find /usr/lib -type f | LC_ALL=C sort | xargs -d '\\n' cat | sha256sum`;

interface Witness {
  pid: number;
  token: string;
  n: number;
  made: string[];
  deleted: string;
  lower: string;
}

async function witnessOf(sandbox: Sandbox): Promise<Witness> {
  return JSON.parse(await sandbox.files.read("/tmp/state"));
}

/** The process of `before` goes on, with the same memory and open files, and its watches see new files. */
async function expectSame(sandbox: Sandbox, before: Witness, name: string): Promise<Witness> {
  const { pid, token, deleted, lower, n } = before;
  await sandbox.commands.run(`touch /tmp/watched/${name}-1 /usr/share/doc/${name}-2`, { user: "root" });
  let now = before;
  await until("both watches have seen a file", async () => {
    now = await witnessOf(sandbox);
    return [1, 2].every((nth) => now.made.includes(`${name}-${nth}`));
  });
  expect(now).toMatchObject({ pid, token, deleted, lower });
  expect(now.n).toBeGreaterThan(n);
  const process = await sandbox.commands.run(`readlink /proc/${pid}/exe; ls -l /proc/${pid}/fd`, { user: "root" });
  expect(process.stdout).toMatch(/python3[\s\S]*\/tmp\/deleted \(deleted\)/);
  return now;
}

async function transfer({ data, cache }: Node, words: readonly string[]): Promise<string> {
  return (await run(transferCommand({ data, cache }, words), { timeoutMs: TRANSFER_MS })).trim();
}

/** Sees the mounts of the server if one runs. Its own end with it. */
function transferCommand({ data, cache }: Node, words: readonly string[]): string[] {
  const namespace = new MountNamespace(new DataFolder(data));
  const enter = namespace.exists ? namespace.enterCommand : [];
  const alone = ["unshare", "--mount", "--propagation=private", "--"];
  return [...enter, ...alone, process.execPath, PROGRAM, data, cache, scratch, ...words];
}

/** The disks are mounted only in the view of the server. */
function checkpointsOf({ pid, dataFolder }: TestServer): string[] {
  return readdirSync(join(`/proc/${pid}/root`, dataFolder, "disks/checkpoints"));
}

/** In a fleet, both are one statement that changes the owner of a row that both nodes see. */
function takeRow({ dataFolder }: TestServer, id: string): Record<string, string | number | null> {
  using store = new Database(join(dataFolder, "store.sqlite"));
  store.run("PRAGMA busy_timeout = 10000");
  const taken = store.query("DELETE FROM sandboxes WHERE id = ? AND state = 'paused' RETURNING *").get(id);
  if (taken === null) throw new Error("the sandbox is no longer paused");
  return taken as Record<string, string | number | null>;
}

function giveRow({ dataFolder }: TestServer, row: Record<string, string | number | null>): void {
  using store = new Database(join(dataFolder, "store.sqlite"));
  store.run("PRAGMA busy_timeout = 10000");
  const columns = Object.keys(row);
  const places = columns.map(() => "?").join(", ");
  store.query(`INSERT INTO sandboxes (${columns.join(", ")}) VALUES (${places})`).run(...Object.values(row));
}

test.skipIf(!LONG)(
  "a paused sandbox continues on another server with its memory, files, open files and watches",
  async () => {
    const first = await startServer(dataA, { SANDLOT_READY: "0" });
    // Both know the same teams, keys and templates, as with one database.
    mkdirSync(dataB, { recursive: true });
    copyStore(join(dataA, "store.sqlite"), join(dataB, "store.sqlite"));
    cpSync(join(dataA, "api-key"), join(dataB, "api-key"));

    const sandbox = await Sandbox.create({ ...first.options, timeoutMs: DAY_MS });
    const { sandboxId } = sandbox;
    await sandbox.commands.run(CHANGES, { user: "root" });
    await sandbox.files.write("/tmp/witness.py", WITNESS);
    await sandbox.commands.run("python3 /tmp/witness.py", { background: true, timeoutMs: 0, user: "root" });
    await until("the witness writes", () => sandbox.files.exists("/tmp/state"));
    const look = async (on: Sandbox) => (await on.commands.run(LOOK, { user: "root", timeoutMs: 120_000 })).stdout;
    const files = await look(sandbox);
    const before = await expectSame(sandbox, await witnessOf(sandbox), "first");
    await sandbox.pause();
    const checkpoint = checkpointsOf(first).find((name) => !name.startsWith(".")) ?? "";
    const digest = await transfer(a, ["export", checkpoint]);

    // An empty node gets image and guest with its first sandbox.
    mkdirSync(otherCache, { mode: 0o755 });
    const { toolFolder } = new Toolbox(CACHE);
    symlinkSync(toolFolder, join(otherCache, basename(toolFolder)));
    // Servers of packages cannot be reached from tests.
    noteImage(otherCache, FETCH_IMAGE);
    await run(["cp", "--archive", imageFolder(CACHE, FETCH_IMAGE), imageFolder(otherCache, FETCH_IMAGE)]);
    expect(await transfer(b, ["import", digest])).toBe(checkpoint);
    const second = await startServer(dataB, newNode);
    // No row names it yet, so the start has removed it.
    expect(checkpointsOf(second)).toEqual([]);

    const killed = Bun.spawn(transferCommand(b, ["import", digest, "stall"]), {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await killed.stdout.getReader().read();
    expect(checkpointsOf(second)).toEqual([`.unfinished-${checkpoint}`]);
    killed.kill("SIGKILL");
    await killed.exited;
    // What it has left is no checkpoint, and the sandbox is still that of the first node.
    expect((await second.call("GET", `/sandboxes/${sandboxId}`)).status).toBe(404);
    expect((await first.call("GET", `/sandboxes/${sandboxId}`)).body).toMatchObject({ state: "paused" });

    expect(await transfer(b, ["import", digest])).toBe(checkpoint);
    const row = takeRow(first, sandboxId);
    // Now no node has it; a crash here loses no byte, since both have the checkpoint and the caller has the row.
    expect((await first.call("POST", `/v2/sandboxes/${sandboxId}/connect`, { timeout: 60 })).status).toBe(404);
    giveRow(second, row);

    const moved = await Sandbox.connect(sandboxId, second.options);
    const there = await expectSame(moved, before, "second");
    expect(await look(moved)).toBe(files);
    await moved.pause();
    await expectSame(await Sandbox.connect(sandboxId, second.options), there, "third");

    expect(await first.stop()).toBe(0);
    const again = await startServer(dataA, { SANDLOT_READY: "0" });
    expect(checkpointsOf(again)).toEqual([]);
    await Sandbox.kill(sandboxId, second.options);
    for (const each of [again, second]) await each.stop();
  },
);
