import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine, type Statement } from "./engine.ts";
import { type PostgresFixture, postgresPrograms, startPostgres } from "./postgres-fixture.ts";

let folder: string;
let postgres: PostgresFixture | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandlot-engine-"));
  if (postgresPrograms !== undefined) postgres = await startPostgres(postgresPrograms);
});
afterAll(async () => {
  await postgres?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const engines = [
  {
    name: "SQLite",
    fresh: async () => `sqlite://${folder}/a.db`,
    ask: (sql: Statement) => sql`PRAGMA synchronous`,
    ...{ durable: "2", quick: "1" },
  },
  {
    name: "Postgres",
    fresh: async () => (await postgres?.freshDatabase()) ?? "",
    ask: (sql: Statement) => sql`SHOW synchronous_commit`,
    ...{ durable: "on", quick: "off" },
  },
];

for (const { name, fresh, ask, durable, quick } of engines) {
  describe.skipIf(name === "Postgres" && postgresPrograms === undefined)(name, () => {
    const setting = async (sql: Statement) => String(Object.values((await ask(sql)).rows[0] ?? {})[0]);

    test("only what is said to outlast no more than the server is written without a round to the disk", async () => {
      const engine = await openEngine(await fresh());
      expect(await engine.transaction(setting)).toBe(durable);
      expect(await engine.transaction(setting, "server")).toBe(quick);
      await expect(engine.transaction(() => Promise.reject(new Error("no")), "server")).rejects.toThrow("no");
      expect(await setting(engine.sql)).toBe(durable);
      expect(await engine.transaction(setting)).toBe(durable);
      await engine.close();
    });
  });
}
