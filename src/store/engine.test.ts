import { describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine, type Statement, sqlPart } from "./engine.ts";
import { bothEngines } from "./testing/engines.ts";

/** How each says, and names, whether it waits for the disk. */
const WAITING = {
  sqlite: { ask: (sql: Statement) => sql`PRAGMA synchronous`, durable: "2", quick: "1" },
  postgres: { ask: (sql: Statement) => sql`SHOW synchronous_commit`, durable: "on", quick: "off" },
};

for (const { name, title, missing, empty } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    const { ask, durable, quick } = WAITING[name];
    const setting = async (sql: Statement) => String(Object.values((await ask(sql)).rows[0] ?? {})[0]);

    test("only writes marked as not durable skip the sync to disk", async () => {
      const engine = await openEngine(await empty());
      expect(await engine.transaction(setting)).toBe(durable);
      expect(await engine.transaction(setting, "server")).toBe(quick);
      await expect(engine.transaction(() => Promise.reject(new Error("no")), "server")).rejects.toThrow("no");
      expect(await setting(engine.sql)).toBe(durable);
      expect(await setting(engine.quick)).toBe(quick);
      expect(await engine.transaction(setting)).toBe(durable);
      expect(await setting(engine.quick)).toBe(quick);
      expect(await setting(engine.sql)).toBe(durable);
      await engine.close();
    });

    test("nested parts of a statement keep their values in order", async () => {
      const engine = await openEngine(await empty());
      await engine.sql`CREATE TABLE numbers (n INTEGER, word TEXT)`;
      for (const n of [1, 2, 3]) await engine.sql`INSERT INTO numbers VALUES (${n}, ${`'${n}'; DROP TABLE numbers`})`;
      const between = (from: number, to: number) => sqlPart`n >= ${from} AND ${sqlPart`n <= ${to}`}`;
      const words = async (from: number, to: number, limit: number) => {
        const { rows } = await engine.sql`SELECT word FROM numbers WHERE ${between(from, to)} AND ${sqlPart`1 = 1`}
          AND word <> ${"x"} ORDER BY n LIMIT ${limit}`;
        return rows.map(({ word }) => String(word)[1]);
      };
      expect(await words(2, 3, 5)).toEqual(["2", "3"]);
      expect(await words(1, 3, 2)).toEqual(["1", "2"]);
      expect(
        (await engine.sql`${sqlPart`SELECT n FROM numbers WHERE n = ${3}`}`).rows.map(({ n }) => Number(n)),
      ).toEqual([3]);
      await engine.close();
    });

    test("a statement after the end of its transaction is rejected without effect", async () => {
      const engine = await openEngine(await empty());
      await engine.sql`CREATE TABLE words (word TEXT)`;
      const { add } = await engine.transaction(async (sql) => ({
        add: async (word: string) => await sql`INSERT INTO words VALUES (${word})`,
      }));
      await expect(add("late")).rejects.toThrow();
      expect((await engine.sql`SELECT word FROM words`).rows).toEqual([]);
      await engine.close();
    });

    test("a prepared statement sees later schema changes", async () => {
      const engine = await openEngine(await empty());
      await engine.sql`CREATE TABLE things (id INTEGER)`;
      const add = (id: number) => engine.sql`INSERT INTO things (id) VALUES (${id}) RETURNING *`;
      expect((await add(1)).rows).toEqual([{ id: 1 }]);
      await engine.sql`ALTER TABLE things ADD COLUMN word TEXT NOT NULL DEFAULT 'none'`;
      expect((await add(2)).rows).toEqual([{ id: 2, word: "none" }]);
      const { count } = await engine.sql`DELETE FROM things WHERE id > ${0}`;
      expect(count).toBe(2);
      await engine.close();
    });
  });
}

test("only the owner can read the files of SQLite, whatever umask and earlier modes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandlot-modes-"));
  const umask = process.umask(0);
  try {
    const modes = () =>
      Object.fromEntries(
        readdirSync(folder).map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]),
      );
    const closed = { "s.db": "600", "s.db-shm": "600", "s.db-wal": "600" };
    const used = async () => {
      const engine = await openEngine(`sqlite://${folder}/s.db`);
      await engine.sql`CREATE TABLE IF NOT EXISTS things (id TEXT)`;
      return engine;
    };
    const first = await used();
    expect(modes()).toEqual(closed);
    // As an earlier server may have left them, with another process that has them open.
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
    const second = await used();
    expect(modes()).toEqual(closed);
    await second.close();
    await first.close();
  } finally {
    process.umask(umask);
    rmSync(folder, { recursive: true, force: true });
  }
});
