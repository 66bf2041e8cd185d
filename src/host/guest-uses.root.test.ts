/** Guests in use according to the records and manifests of two servers, in the places of real ones. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Checkpoints } from "../sandbox/checkpoint/checkpoints.ts";
import { MANIFEST_FORMAT, type Manifest } from "../sandbox/checkpoint/manifest.ts";
import { type SandboxRecord, writeRecord } from "../sandbox/sandbox-record.ts";
import { DataFolder } from "../system/data-folder.ts";
import { guestUses, imageUses } from "./guest-uses.ts";

const folder = mkdtempSync(join(tmpdir(), "sandlot-uses-"));
const servers = ["first", "second"].map((name) => new DataFolder(join(folder, name)));
afterAll(() => {
  for (const path of [folder, ...servers.map(({ runFolder }) => runFolder)]) rmSync(path, { recursive: true });
});

test("guests and images are in use by sandboxes of all servers and by this server's checkpoints", async () => {
  const checkpoints = new Checkpoints(join(folder, "checkpoints"));
  await writeCheckpoint(checkpoints, "paused", "/cache/guests/paused");
  await writeCheckpoint(checkpoints, "without-memory", undefined);
  for (const [at, data] of servers.entries()) {
    data.makeRunFolder();
    const sandbox = join(data.sandboxesFolder, "sandbox");
    mkdirSync(sandbox);
    const kind = { image: `running-${at}` };
    writeRecord(sandbox, { guestFolder: `/cache/guests/running-${at}`, kind } as SandboxRecord);
    // One that is being made.
    mkdirSync(join(data.sandboxesFolder, "other"));
  }
  const [own] = servers as [DataFolder];
  const unlocked: string[] = [];
  const uses = guestUses(own, checkpoints, { unlock: async (guest) => void unlocked.push(guest) });
  expect(await uses.own()).toEqual(["/cache/guests/running-0", "/cache/guests/paused"]);
  expect(uses.others()).toContain("/cache/guests/running-1");
  expect(uses.others()).not.toContain("/cache/guests/running-0");
  const images = imageUses(own, checkpoints, () => ["current"]);
  expect(await images.own()).toEqual(["running-0", "base"]);
  expect(images.others()).toEqual(expect.arrayContaining(["running-1", "current"]));
  expect(images.others()).not.toContain("running-0");
  await uses.release("/cache/guests/old");
  expect(unlocked).toEqual(["/cache/guests/old"]);
});

async function writeCheckpoint(checkpoints: Checkpoints, name: string, guestFolder: string | undefined): Promise<void> {
  const memory = guestFolder === undefined ? {} : { memory: { guestFolder } };
  const manifest = { format: MANIFEST_FORMAT, kind: { image: "base" }, ...memory } as Manifest;
  const draft = checkpoints.begin(name);
  checkpoints.describe(draft, manifest);
  await checkpoints.commit(name, draft, false);
}
