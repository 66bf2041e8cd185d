/** Workloads: databases in the middle of a transaction. */
import { expect } from "bun:test";
import type { Workload } from "./workload.ts";

/** Any version. */
const POSTGRES = "/usr/lib/postgresql/*/bin";

export const databases: Workload[] = [
  {
    what: "SQLite with an open transaction",
    fate: "kept",
    async play(stage) {
      await stage.run("sqlite3 db 'create table t(x)'");
      const writer = await stage.command("exec sqlite3 db");
      await writer.ask("begin immediate; insert into t values (41); select 'count=' || count(*) from t;", /count=1/);
      await stage.pauseAndResume();
      // The lock is still held, and uncommitted rows are not visible.
      expect(await stage.run("sqlite3 db 'insert into t values (0)' 2>&1 || true")).toContain("database is locked");
      expect(await stage.run("sqlite3 db 'select count(*) from t'")).toBe("0");
      await writer.ask("insert into t values (1); commit; select 'sum=' || sum(x) from t;", /sum=42/);
      expect(await stage.run("sqlite3 db 'select sum(x) from t; pragma integrity_check'")).toBe("42\nok");
    },
  },
  {
    what: "PostgreSQL with an open transaction",
    fate: "kept",
    async play(stage) {
      await stage.run(`${POSTGRES}/initdb -D pg -A trust --no-sync > /dev/null`);
      await stage.command(`exec ${POSTGRES}/postgres -D pg -k /tmp -h 127.0.0.1`);
      await stage.run(`until ${POSTGRES}/pg_isready -h /tmp; do sleep 0.05; done`);
      const writer = await stage.command("exec psql -q -h 127.0.0.1 -At postgres");
      await writer.ask(
        "create table t(x int); begin; insert into t values (41); select 'count=' || count(*) from t;",
        /count=1/,
      );
      await stage.pauseAndResume();
      expect(await stage.run("psql -At -h /tmp postgres -c 'select count(*) from t'")).toBe("0");
      await writer.ask("insert into t values (1); commit; select 'sum=' || sum(x) from t;", /sum=42/);
      expect(await stage.run("psql -At -h /tmp postgres -c 'select sum(x) from t'")).toBe("42");
    },
  },
];
