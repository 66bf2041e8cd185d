/** For tests that run on SQLite and Postgres. Call one of these once at the top of a file; it cleans up after it. */
import { afterAll, beforeAll } from "bun:test";
import { rm } from "node:fs/promises";
import { LONG } from "../../base/testing/long.ts";
import { newDatabaseFolder } from "./database-folder.ts";
import { migratedFile } from "./migrated-file.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "./postgres.ts";

interface EngineUnderTest {
  name: "sqlite" | "postgres";
  title: string;
  /** Not available on this machine. */
  missing: boolean;
  /** The URL of a database without tables. */
  empty(): Promise<string>;
  /** The URL of a database with the current tables, without rows. */
  fresh(): Promise<string>;
}

/**
 * SQLite, and Postgres in long runs: for tests of what control does with any store. Tests of the store and of races
 * always use both; `control/postgres.test.ts` is control on Postgres.
 */
export function enginesOfControl(): EngineUnderTest[] {
  return engines(LONG);
}

export function bothEngines(): EngineUnderTest[] {
  return engines(true);
}

function engines(withPostgres: boolean): EngineUnderTest[] {
  let folder: string;
  let postgres: PostgresFixture | undefined;
  let files = 0;
  beforeAll(async () => {
    folder = await newDatabaseFolder("sandlot-engines-");
    if (withPostgres && postgresPrograms !== undefined) postgres = await postgresOfFile(postgresPrograms);
  });
  afterAll(async () => {
    await postgres?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  const newPath = () => `${folder}/${++files}.db`;
  const sqlite = {
    name: "sqlite",
    title: "SQLite",
    missing: false,
    empty: async () => `sqlite://${newPath()}`,
    fresh: () => migratedFile(newPath()),
  } as const;
  if (!withPostgres) return [sqlite];
  return [
    sqlite,
    {
      name: "postgres",
      title: postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)",
      missing: postgresPrograms === undefined,
      empty: async () => (await postgres?.emptyDatabase()) ?? "",
      fresh: async () => (await postgres?.freshDatabase()) ?? "",
    },
  ];
}
