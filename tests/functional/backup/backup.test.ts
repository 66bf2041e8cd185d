/** Backups of a serving server by its commands, and their restore on an empty machine. */
import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { basename, join } from "node:path";
import { Sandbox, Template, Volume } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { Toolbox } from "../../../src/system/toolbox.ts";
import { CACHE } from "../../support/cache.ts";
import { counting, expectCounting } from "../../support/counting.ts";
import { attemptBackup, backupCommand, sandlotBackup } from "../../support/sandlot-backup.ts";
import { sandlotKeys } from "../../support/sandlot-keys.ts";
import { newDataFolder, startServer, type TestServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";
import { until } from "../../support/until.ts";

const DAY = { timeoutMs: 3_600_000 };
const MIB = 1024 ** 2;
const FILES = 100;

const folder = foldersOfFile();
const scratch = `${newDataFolder("backup")}-files`;
const target = join(scratch, "repository");
/** Sandboxes read it as other users, so not below the private folder of all tests. */
const emptyCache = `/var/tmp/sandlot-backup-cache-${process.pid}`;
const [data, restored] = [folder("backup"), folder("restored")];
const newMachine = { SANDLOT_READY: "0", SANDLOT_CACHE: emptyCache };
afterAll(async () => {
  if (existsSync(emptyCache)) await attemptBackup(restored, ["down"], newMachine);
  for (const path of [scratch, emptyCache]) rmSync(path, { recursive: true, force: true });
});

/** Without files that restic still writes. */
function packs(): string[] {
  const all = readdirSync(join(target, "data"), { recursive: true, encoding: "utf8" });
  return all.filter((name) => /\/[0-9a-f]{64}$/.test(name)).map((name) => join(target, "data", name));
}

const bytesAtTarget = () => packs().reduce((sum, path) => sum + statSync(path).size, 0);

test.skipIf(!LONG)("a server that is backed up while it serves is restored on an empty machine", async () => {
  const old = await startServer(data, { SANDLOT_READY: "0" });
  const at = { apiUrl: old.url };
  const day = { ...old.options, ...DAY };
  const random = async (sandbox: Sandbox, name: string, mebibytes: number) =>
    await sandbox.commands.run(`head -c ${mebibytes}M /dev/urandom > /mnt/shared/${name}`, { user: "root" });
  const volume = await Volume.create("shared", old.options);
  await volume.writeFile("/note", "in a volume", at);
  const running = await Sandbox.create({ ...day, volumeMounts: { "/mnt/shared": volume } });
  for (let n = 0; n < FILES; n++) await random(running, `random-${n}`, 1);
  const paused = await Sandbox.create({ ...day, volumeMounts: { "/mnt/shared": volume } });
  await counting(paused);
  const { snapshotId } = await paused.createSnapshot();
  const [forked] = await paused.fork(DAY);
  if (!(forked instanceof Sandbox)) throw forked ?? new Error("there is no fork");
  const lost = await Sandbox.create(day);
  for (const each of [paused, forked, lost]) await each.pause();
  await Template.build(Template().fromTemplate("base").runCmd("echo built > /tmp/built"), "made", old.options);
  const hook = { name: "ours", url: "https://hooks.example.com/", events: ["sandbox.lifecycle.created"] };
  const made = await old.call("POST", "/events/webhooks", { ...hook, signatureSecret: "s".repeat(32) });
  expect(made.status).toBe(201);
  const secondKey = /e2b_\w+/.exec(await sandlotKeys(old, "create", "second"))?.[0] ?? "";

  const first = await sandlotBackup(data, ["backup", "--init", target]);
  expect(first).toMatch(/has 4 checkpoints, 1 images and 1 volumes; [\d.]+ MiB were sent/);
  const firstBytes = bytesAtTarget();
  await random(running, "random-0", 1);
  await sandlotBackup(data, ["backup", target]);
  expect(bytesAtTarget() - firstBytes).toBeWithin(MIB, 0.05 * firstBytes);
  // The sandbox has served on.
  expect(await running.files.read("/mnt/shared/note")).toBe("in a volume");

  const before = packs().length;
  await random(running, "more", 100);
  const { argv, env } = backupCommand(data, ["backup", target]);
  const killed = Bun.spawn(argv, { env, stdio: ["ignore", "ignore", "ignore"] });
  await until("a part of the third backup is at the target", async () => packs().length > before);
  killed.kill("SIGKILL");
  await killed.exited;
  expect(killed.signalCode).toBe("SIGKILL");
  expect(await sandlotBackup(data, ["verify", target])).toContain("2 backups");
  await sandlotBackup(data, ["backup", target]);
  expect(await sandlotBackup(data, ["verify", target])).toMatch(
    /3 backups at .*, 0 incomplete; all data matches its digests/,
  );
  expect(await old.stop()).toBe(0);
  await sandlotBackup(data, ["down"]);

  mkdirSync(emptyCache, { mode: 0o755 });
  // Servers of packages cannot be reached from tests.
  const [there, here] = [CACHE, emptyCache].map((path) => new Toolbox(path).resticFolder);
  symlinkSync(there ?? "", here ?? "");
  expect(await sandlotBackup(restored, ["restore", target], newMachine)).toContain("is restored");
  damage(packs()[0] ?? "");
  const failed = await attemptBackup(data, ["verify", target]);
  expect([failed.exitCode, failed.stderr]).toEqual([
    1,
    expect.stringContaining(basename(packs()[0] ?? "").slice(0, 10)),
  ]);

  const server = await startServer(restored, newMachine);
  const { options } = server;
  expect(server.apiKey).toBe(old.apiKey);
  const statusOf = async ({ sandboxId }: Sandbox) => (await server.call("GET", `/sandboxes/${sandboxId}`)).status;
  await until("the sandbox that ran is over", async () => (await statusOf(running)) === 404);
  for (const { sandboxId } of [paused, forked]) await expectCounting(await Sandbox.connect(sandboxId, options));
  await expectCounting(
    await Sandbox.create(snapshotId, { ...options, ...DAY, volumeMounts: { "/mnt/shared": volume } }),
  );
  const fromTemplate = await Sandbox.create("made", { ...options, apiKey: secondKey });
  expect(await fromTemplate.files.read("/tmp/built")).toBe("built\n");
  const again = await Sandbox.connect(paused.sandboxId, options);
  const line = "cat /mnt/shared/note; cat /mnt/shared/random-* | wc --bytes";
  expect((await again.commands.run(line)).stdout).toBe(`in a volume${FILES * MIB}\n`);
  expect((await server.call("GET", "/events/webhooks")).body).toMatchObject([{ name: "ours", url: hook.url }]);

  removeCheckpointOf(server, lost);
  const refused = await server.call("POST", `/v2/sandboxes/${lost.sandboxId}/connect`, { timeout: 60 });
  expect(refused).toMatchObject({ status: 422, body: { message: expect.stringContaining("there is no checkpoint") } });
  expect(await Sandbox.kill(lost.sandboxId, options)).toBe(true);
  expect(await statusOf(lost)).toBe(404);
  await server.stop();
});

/** Changes a few bytes in the middle of a file. */
function damage(path: string): void {
  const file = openSync(path, "r+");
  writeSync(file, "damaged", Math.floor(statSync(path).size / 2));
  closeSync(file);
}

/** The disks are mounted only in the view of the server. */
function removeCheckpointOf({ pid, dataFolder }: TestServer, { sandboxId }: Sandbox): void {
  using store = new Database(join(dataFolder, "store.sqlite"), { readonly: true });
  const { checkpoint } = store.query("SELECT checkpoint FROM sandboxes WHERE id = ?").get(sandboxId) as {
    checkpoint: string;
  };
  rmSync(join(`/proc/${pid}/root`, dataFolder, "disks/checkpoints", checkpoint), { recursive: true });
}
