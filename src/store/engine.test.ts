import { describe, expect, test } from "bun:test";
import { openEngine, type Statement } from "./engine.ts";
import { bothEngines } from "./testing/engines.ts";

/** How each says, and names, whether it waits for the disk. */
const WAITING = {
  sqlite: { ask: (sql: Statement) => sql`PRAGMA synchronous`, durable: "2", quick: "1" },
  postgres: { ask: (sql: Statement) => sql`SHOW synchronous_commit`, durable: "on", quick: "off" },
};

for (const { name, title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    const { ask, durable, quick } = WAITING[name];
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
