/** Outages of Postgres, on a server of this file's own. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LONG } from "../base/testing/long.ts";
import { untilTrue } from "../base/testing/until.ts";
import { Fault, UncertainOutcome } from "../contract/fault.ts";
import { type Engine, openEngine } from "./engine.ts";
import { openMigratedStore, openStore } from "./store.ts";
import { type PostgresServer, postgresPrograms, startPostgres } from "./testing/postgres.ts";

const title = postgresPrograms ? "Postgres" : "Postgres (not run: its server programs are not on this machine)";

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let server: PostgresServer;
  let engine: Engine;

  beforeAll(async () => {
    server = await startPostgres(postgresPrograms ?? "");
    engine = await openEngine(await server.emptyDatabase());
    await engine.sql`CREATE TABLE words (word TEXT)`;
  });
  afterAll(async () => {
    await engine.close();
    await server[Symbol.asyncDispose]();
  });

  const failure = (work: Promise<unknown>) => work.then(() => undefined).catch((error: unknown) => error);
  const isAsleep = async (statements = 1) => {
    const { rows } = await engine.sql`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`;
    return rows.length === statements;
  };
  const works = () =>
    engine.sql`SELECT 1`.then(
      () => true,
      () => false,
    );

  test("a crash of the server leaves statements in flight uncertain, rejects new ones with 503, and is recovered from", async () => {
    const inFlight = failure(engine.sql`SELECT pg_sleep(60)`);
    const inTransaction = failure(
      engine.transaction(async (sql) => {
        await sql`INSERT INTO words VALUES ('lost')`;
        await sql`SELECT pg_sleep(60)`;
      }),
    );
    await untilTrue(() => isAsleep(2));
    await server.stop();
    // A client gets 503 either way; the lifecycle looks whether the change was made.
    expect(await inFlight).toBeInstanceOf(UncertainOutcome);
    expect(Fault.from(await inFlight)).toMatchObject({ status: 503, headers: { "Retry-After": "2" } });
    // Its commit was not sent.
    expect(await inTransaction).toMatchObject({ status: 503 });
    expect(await inTransaction).toBeInstanceOf(Fault);
    for (const ask of [() => engine.sql`SELECT 1`, () => engine.quick`SELECT 1`, () => engine.unguarded`SELECT 1`]) {
      const refusal = await failure(ask());
      expect(refusal).toBeInstanceOf(Fault);
      expect(refusal).toMatchObject({ status: 503 });
    }
    await server.start();
    await untilTrue(works);
    expect((await engine.sql`SELECT * FROM words`).rows).toEqual([]);
    await engine.transaction((sql) => sql`INSERT INTO words VALUES ('kept')`);
    await engine.unguarded`SELECT 1`;
  });

  test("a database that only reads is unavailable, until a connection reaches one that writes", async () => {
    const { rows } = await engine.sql`SELECT current_database() AS name`;
    const readOnly = async (value: "on" | "off") => {
      const admin = new Bun.SQL(`${server.address}/postgres`, { max: 1 });
      await admin.unsafe(`ALTER DATABASE ${rows[0]?.name} SET default_transaction_read_only = ${value}`);
      await admin.close();
    };
    await readOnly("on");
    const demoted = await openEngine(`${server.address}/${rows[0]?.name}`);
    await readOnly("off");
    const refusals: unknown[] = [];
    await untilTrue(async () => {
      const refusal = await failure(demoted.transaction((sql) => sql`INSERT INTO words VALUES ('new')`));
      if (refusal !== undefined) refusals.push(refusal);
      return refusal === undefined;
    });
    for (const refusal of refusals) expect(refusal).toMatchObject({ status: 503 });
    await demoted.close();
  });

  test("starts at once on an empty database migrate it once", async () => {
    const url = await server.emptyDatabase();
    await expect(openMigratedStore(url)).rejects.toMatchObject({ status: 409 });
    const stores = await Promise.all(Array.from({ length: 3 }, () => openStore(url, 0)));
    for (const store of stores) await store.close();
    await (await openMigratedStore(url)).close();
  });

  test("a database that cannot be reached is a Fault 503 without the password", async () => {
    const { port } = new URL(server.address);
    const wrong = [`postgres://u:sesame@127.0.0.1:1/x`, `postgres://nobody:sesame@127.0.0.1:${port}/x`];
    for (const url of wrong) {
      const refusal = await failure(openStore(url, 0));
      expect(refusal).toMatchObject({ status: 503 });
      expect(Bun.inspect(refusal, { depth: 10 })).not.toContain("sesame");
    }
  });

  // Takes twenty seconds: the time after which a silent database counts as gone.
  test.skipIf(!LONG)("a frozen server fails its statements after a bounded time, and is recovered from", async () => {
    await engine.sql`SELECT 1`;
    await server.freeze();
    try {
      const [single, transaction, unguarded] = await Promise.all([
        failure(engine.sql`SELECT 1`),
        failure(engine.transaction((sql) => sql`SELECT 1`)),
        failure(engine.unguarded`SELECT 1`),
      ]);
      for (const error of [single, transaction, unguarded]) expect(Fault.from(error).status).toBe(503);
    } finally {
      await server.thaw();
    }
    await untilTrue(works);
    await engine.unguarded`SELECT 1`;
  });
});
