/**
 * For tests that ask the same of SQLite and of Postgres. Call it once, at the top of a file: what it starts goes with
 * the file.
 */
import { afterAll, beforeAll } from "bun:test";
import { rm } from "node:fs/promises";
import { newDatabaseFolder } from "./database-folder.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "./postgres.ts";

interface EngineUnderTest {
  name: "sqlite" | "postgres";
  title: string;
  /** It cannot be had on this machine. */
  missing: boolean;
  /** The address of an empty database. */
  fresh(): Promise<string>;
}

export function bothEngines(): EngineUnderTest[] {
  let folder: string;
  let postgres: PostgresFixture | undefined;
  let files = 0;
  beforeAll(async () => {
    folder = await newDatabaseFolder("sandlot-engines-");
    if (postgresPrograms !== undefined) postgres = await postgresOfFile(postgresPrograms);
  });
  afterAll(async () => {
    await postgres?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  return [
    { name: "sqlite", title: "SQLite", missing: false, fresh: async () => `sqlite://${folder}/${++files}.db` },
    {
      name: "postgres",
      title: postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)",
      missing: postgresPrograms === undefined,
      fresh: async () => (await postgres?.freshDatabase()) ?? "",
    },
  ];
}
