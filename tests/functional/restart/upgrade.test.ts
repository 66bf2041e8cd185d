/** An upgrade in place, from the reference version, and the way back: nothing that its server made is lost. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, Template, Volume } from "e2b";
import { sha256 } from "../../../src/base/sha256.ts";
import { failureOf } from "../../../src/base/testing/failure.ts";
import { LONG } from "../../../src/base/testing/long.ts";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { run } from "../../../src/system/command.ts";
import { DataFolder } from "../../../src/system/data-folder.ts";
import { counting, expectCounting } from "../../support/counting.ts";
import { recordOf } from "../../support/inside.ts";
import { referenceVersion } from "../../support/reference-version.ts";
import { newDataFolder, startServer } from "../../support/server.ts";
import { foldersOfFile } from "../../support/server-of-file.ts";

const folder = foldersOfFile();
const earlier = `${newDataFolder("reference")}-files`;
afterAll(() => rmSync(earlier, { recursive: true, force: true }));

test.skipIf(!LONG)("nothing is lost by an upgrade in place, nor by an attempt to go back", async () => {
  const project = await referenceVersion(earlier);
  const data = folder("upgrade");
  const settings = { SANDLOT_READY: "0" };
  const old = await startServer(data, settings, undefined, project);
  const day = { ...old.options, timeoutMs: 3_600_000 };
  const at = { apiUrl: old.url };
  const volume = await Volume.create("shared", old.options);
  await volume.writeFile("/from-before", "content", at);
  const running = await Sandbox.create({ ...day, volumeMounts: { "/mnt/shared": volume } });
  await counting(running);
  const paused = await Sandbox.create(day);
  await counting(paused);
  const [forked] = await paused.fork({ timeoutMs: 3_600_000 });
  if (!(forked instanceof Sandbox)) throw forked ?? new Error("there is no fork");
  const { snapshotId } = await paused.createSnapshot();
  await paused.pause();
  await Template.build(Template().fromTemplate("base").runCmd("echo built > /tmp/built"), "made", old.options);
  const hook = { name: "ours", url: "https://hooks.example.com/", events: ["sandbox.lifecycle.created"] };
  const made = await old.call("POST", "/events/webhooks", { ...hook, signatureSecret: "s".repeat(32) });
  expect(made.status).toBe(201);
  const keys = async (...words: string[]) => {
    const argv = [process.execPath, join(project, "src/cli/main.ts"), "keys", ...words];
    return /\b(?:sk_)?e2b_\w+/.exec(await run(argv, { env: serverEnv(data) }))?.[0] ?? "";
  };
  const [secondKey, token] = [await keys("create", "second"), await keys("token")];
  const guestOf = (sandbox: Sandbox) => recordOf(new DataFolder(data), sandbox.sandboxId).guestFolder;
  const oldGuest = guestOf(running);
  expect(await old.stop()).toBe(0);

  const server = await startServer(data, settings);
  const { options } = server;
  expect(server.apiKey).toBe(old.apiKey);
  const connected = await Sandbox.connect(running.sandboxId, options);
  await expectCounting(connected);
  expect(guestOf(connected)).toBe(oldGuest);
  expect(await connected.files.read("/mnt/shared/from-before")).toBe("content");
  await expectCounting(await Sandbox.connect(paused.sandboxId, options));
  expect(guestOf(paused)).toBe(oldGuest);
  await expectCounting(await Sandbox.connect(forked.sandboxId, options));
  await expectCounting(await Sandbox.create(snapshotId, options));
  const fromTemplate = await Sandbox.create("made", { ...options, apiKey: secondKey });
  expect(await fromTemplate.files.read("/tmp/built")).toBe("built\n");
  expect(guestOf(fromTemplate)).not.toBe(oldGuest);
  const teams = await fetch(`${server.url}/teams`, { headers: { Authorization: `Bearer ${token}` } });
  expect(await teams.json()).toMatchObject([{ name: "default" }]);
  expect((await server.call("GET", "/events/webhooks")).body).toMatchObject([{ name: "ours", url: hook.url }]);
  // The sandboxes of before can be paused by the new server.
  await connected.pause();
  await expectCounting(await Sandbox.connect(running.sandboxId, options));
  expect(guestOf(connected)).toBe(oldGuest);
  expect(await server.stop()).toBe(0);

  const { storeFile } = new DataFolder(data);
  const digest = () => sha256(readFileSync(storeFile));
  const migrated = digest();
  const refused = await failureOf(startServer(data, settings, undefined, project));
  expect(refused).toMatch(/the database is at version \d+, but this program knows versions up to 10/);
  expect(refused).toContain("start the newer program that wrote it, or restore a backup from before the upgrade");
  expect([digest(), existsSync(`${storeFile}-wal`)]).toEqual([migrated, false]);
  const again = await startServer(data, settings);
  await expectCounting(await Sandbox.connect(running.sandboxId, again.options));
  await again.stop();
});
