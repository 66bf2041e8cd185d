/** For tests that run on both SQLite and Postgres. Call it once at the top of a file; it cleans up after the file. */
import { afterAll, beforeAll } from "bun:test";
import { rm } from "node:fs/promises";
import { newDatabaseFolder } from "./database-folder.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "./postgres.ts";

interface EngineUnderTest {
  name: "sqlite" | "postgres";
  title: string;
  /** Not available on this machine. */
  missing: boolean;
  /** The URL of a database without tables. */
  empty(): Promise<string>;
  /** The URL of a database without rows. Opening it may still create the tables. */
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
  const newFile = async () => `sqlite://${folder}/${++files}.db`;
  return [
    { name: "sqlite", title: "SQLite", missing: false, empty: newFile, fresh: newFile },
    {
      name: "postgres",
      title: postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)",
      missing: postgresPrograms === undefined,
      empty: async () => (await postgres?.emptyDatabase()) ?? "",
      fresh: async () => (await postgres?.freshDatabase()) ?? "",
    },
  ];
}
