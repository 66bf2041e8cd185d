/** The API key printed at start-up works. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { rmSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { createApiKey, revokeApiKey } from "../../control/access/keys.ts";
import { ensureFirstRun } from "../../control/first-run.ts";
import { createIds } from "../../control/ids.ts";
import { openStore, type Store } from "../../store/store.ts";
import { newDatabaseFolder } from "../../store/testing/database-folder.ts";
import { firstApiKey } from "./first-api-key.ts";

let folder: string;
let file: string;
let store: Store;
beforeEach(async () => {
  folder = await newDatabaseFolder("sandlot-first-key-");
  file = join(folder, "api-key");
  store = await openStore(`sqlite://${folder}/store.sqlite`, systemClock.now());
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

async function start(): Promise<{ teamId: string; shown: string | undefined }> {
  const services = { store, ids: createIds(), clock: systemClock };
  const { teamId, firstApiKey: made } = await ensureFirstRun(services, []);
  return { teamId, shown: await firstApiKey(store, file, made) };
}

async function revokeAll(teamId: string): Promise<void> {
  const services = { store, ids: createIds(), clock: systemClock };
  for (const { id } of await store.keys.apiKeysOf(teamId)) await revokeApiKey(services, teamId, id);
}

test("the key is the same at every start, and only root can read it", async () => {
  const { shown } = await start();
  expect(shown).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect((await start()).shown).toBe(shown);
});

test("a deleted key is not shown; a team without keys gets a new one", async () => {
  const { teamId, shown } = await start();
  await revokeAll(teamId);
  const ids = createIds();
  await createApiKey({ store, ids, clock: systemClock }, { teamId, name: "other", createdBy: null });
  expect((await start()).shown).toBeUndefined();
  await revokeAll(teamId);
  const { shown: next } = await start();
  expect(next).toMatch(/^e2b_[0-9a-f]{40}$/);
  expect(next).not.toBe(shown);
});

test("no key is shown if its file is missing or has other content", async () => {
  await start();
  rmSync(file);
  expect((await start()).shown).toBeUndefined();
  await Bun.write(file, "my own notes\n");
  expect((await start()).shown).toBeUndefined();
});
