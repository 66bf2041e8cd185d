/** A data folder belongs to one database: no start on another one finds nothing and ends its sandboxes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { jsonLog } from "../base/log.ts";
import { failureOf } from "../base/testing/failure.ts";
import { folderOfFile } from "../base/testing/test-folder.ts";
import { openEngine } from "../store/engine.ts";
import { migrations } from "../store/migrations.ts";
import { openStore } from "../store/store.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "../store/testing/postgres.ts";
import { DataFolder } from "../system/data-folder.ts";
import { hasStore, readStoreNote, requireOwnDatabase, storeUrl } from "./folder-store.ts";
import { openServerStore } from "./server/server-store.ts";
import { loadConfig } from "./settings/config.ts";

const folder = folderOfFile("folder-store");
const title = postgresPrograms
  ? "with Postgres"
  : "with Postgres (not run: its server programs are not on this machine)";

const configOf = (name: string, url?: string) => {
  const dataFolder = join(folder, name);
  const file = join(folder, `${name}.json`);
  writeFileSync(file, "{}");
  return loadConfig({
    SANDLOT_CONFIG: file,
    SANDLOT_DATA: dataFolder,
    ...(url === undefined ? {} : { SANDLOT_STORE: url }),
  });
};
const log = jsonLog(() => undefined);

test("a folder with SQLite rejects a setting for Postgres, and stays as it is", async () => {
  const config = configOf("sqlite");
  const data = new DataFolder(config.dataFolder);
  const { store } = await openServerStore(config, data, log);
  await store.close();
  expect([hasStore(config), storeUrl(config)]).toEqual([true, `sqlite://${data.storeFile}`]);
  const other = configOf("sqlite", "postgres://u:sesame@127.0.0.1:1/x");
  const refusal = await failureOf(openServerStore(other, data, log));
  expect(refusal).toMatch(/are in .*store\.sqlite, and SANDLOT_STORE names Postgres\. FIX: unset SANDLOT_STORE/);
  expect(refusal).not.toContain("sesame");
  expect(existsSync(data.storeNote)).toBe(false);
});

test("a database that is not there leaves the folder free for another", async () => {
  const config = configOf("unreached", "postgres://u:sesame@127.0.0.1:1/x");
  const data = new DataFolder(config.dataFolder);
  expect(await failureOf(openServerStore(config, data, log))).toContain("the database is not available");
  expect(hasStore(config)).toBe(false);
  expect(storeUrl(configOf("unreached"))).toBe(`sqlite://${data.storeFile}`);
});

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let postgres: PostgresFixture;
  beforeAll(async () => {
    postgres = await postgresOfFile(postgresPrograms ?? "");
  });
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]();
  });

  test("a folder remembers its database, and rejects a start without it or on another one", async () => {
    const url = await postgres.freshDatabase();
    const config = configOf("first", url);
    const data = new DataFolder(config.dataFolder);
    for (const epoch of [1, 2]) {
      const { store, membership } = await openServerStore(config, data, log);
      expect(membership?.epoch).toBe(epoch);
      await membership?.close();
      await store.close();
    }
    expect(readStoreNote(data)).toMatchObject({ postgres: config.postgres?.shown, isJoined: true });
    expect(hasStore(config)).toBe(true);
    expect(() => storeUrl(configOf("first"))).toThrow(
      `FIX: SANDLOT_STORE=postgres://USER:PASSWORD@${config.postgres?.shown}`,
    );
    const elsewhere = configOf("first", await postgres.freshDatabase());
    expect(await failureOf(openServerStore(elsewhere, data, log))).toContain("knows nothing of the sandboxes of");
    // As a command beside the server does.
    const store = await openStore(storeUrl(elsewhere), 0);
    const nodes = await store.nodes.all();
    expect(() => elsewhere.postgres && requireOwnDatabase(elsewhere, elsewhere.postgres, nodes)).toThrow(
      `which were in ${config.postgres?.shown}`,
    );
    await store.close();
    const another = configOf("another", url);
    const refusal = await failureOf(openServerStore(another, new DataFolder(another.dataFolder), log));
    expect(refusal).toContain("the database belongs to the data folder of the server");
    expect(hasStore(another)).toBe(false);
  });

  test("a database of another folder is not migrated", async () => {
    const url = await postgres.freshDatabase();
    const own = configOf("earlier", url);
    const { store, membership } = await openServerStore(own, new DataFolder(own.dataFolder), log);
    await membership?.close();
    await store.close();
    const engine = await openEngine(url);
    const versionOf = async () => (await engine.sql`SELECT MAX(version) AS version FROM schema_versions`).rows;
    // As an earlier program left it, which still runs.
    await engine.sql`DELETE FROM schema_versions WHERE version = ${migrations.length}`;
    const before = await versionOf();
    const other = configOf("later", url);
    const refusal = await failureOf(openServerStore(other, new DataFolder(other.dataFolder), log));
    expect(refusal).toContain("the database belongs to the data folder of the server");
    expect(await versionOf()).toEqual(before);
    await engine.close();
  });
});
