/** Commands on a store that an earlier version of the server uses. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { migrations } from "../store/migrations.ts";
import { DataFolder } from "../system/data-folder.ts";
import { teamsOf } from "./commands/doctor.ts";
import { commandOnStore } from "./testing/command-on-store.ts";

const earlier = migrations.length - 1;
let dataFolder = "";
const sandlot = commandOnStore(async (_store, folder) => {
  dataFolder = folder;
  using db = new Database(new DataFolder(folder).storeFile);
  db.run("DELETE FROM schema_versions WHERE version > ?", [earlier]);
});

test("a command refuses the store, the doctor leaves out the teams, and neither migrates it", async () => {
  const { code, error } = await sandlot("keys", "list");
  expect([code, error]).toEqual([1, expect.stringContaining(`the store has version ${earlier}`)]);
  expect(error).toContain("FIX: restart the server with this version first");
  const skipped: string[] = [];
  expect(await teamsOf({ dataFolder, postgres: undefined }, (why) => void skipped.push(why))).toEqual([]);
  expect(skipped).toEqual([expect.stringContaining(`the store has version ${earlier}`)]);
  using db = new Database(new DataFolder(dataFolder).storeFile, { readonly: true });
  expect(db.query("SELECT MAX(version) AS version FROM schema_versions").get()).toEqual({ version: earlier });
});
