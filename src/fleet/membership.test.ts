/** Two servers of one database, on the database's clock. The test moves leases instead of waiting for them. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { jsonLog } from "../base/log.ts";
import { ManualClock } from "../base/testing/manual-clock.ts";
import { untilTrue } from "../base/testing/until.ts";
import { type Engine, openEngine } from "../store/engine.ts";
import { openStore, type Store } from "../store/store.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "../store/testing/postgres.ts";
import { LEASE_MS, LEASE_RENEWED_EVERY_MS, type Member, Membership } from "./membership.ts";

const title = postgresPrograms ? "on Postgres" : "on Postgres (not run: its server programs are not on this machine)";
/** No test takes so long. */
const HOUR_MS = 3_600_000;
const FIRST: Member = { identity: "first-folder", name: "first", boot: "boot-1", version: "1.0.0" };
const OTHER: Member = { identity: "other-folder", name: "other", boot: "boot-2", version: "1.0.0" };

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let postgres: PostgresFixture;
  let url: string;
  let engine: Engine;
  let opened: Store[];

  beforeAll(async () => {
    postgres = await postgresOfFile(postgresPrograms ?? "");
  });
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    url = await postgres.freshDatabase();
    engine = await openEngine(url);
    opened = [];
  });
  afterEach(async () => {
    for (const store of opened) await store.close();
    await engine.close();
  });

  /** A server on its own machine, with its own clock. */
  async function server(member: Member) {
    const store = await openStore(url, 0);
    opened.push(store);
    const clock = new ManualClock(0);
    const lines: string[] = [];
    const log = jsonLog((line) => lines.push(line));
    const join = () => Membership.join({ store, clock, log, elapsedMs: () => clock.now() }, member);
    return { store, clock, lines, join };
  }
  const nodes = async () => (await engine.sql`SELECT * FROM nodes ORDER BY name`).rows;
  /** Time passes in the database only. */
  const pass = (ms: number) => engine.sql`UPDATE nodes SET lease_until = lease_until - ${ms}`;
  const leaseLeft = async () => {
    const { rows } = await engine.sql`SELECT lease_until - ${engine.clock} AS ms FROM nodes`;
    return Number(rows[0]?.ms);
  };

  test("a server has a row with its name and version, whose lease it renews", async () => {
    const first = await server(FIRST);
    const membership = await first.join();
    expect(await nodes()).toMatchObject([{ name: "first", version: "1.0.0", address: null }]);
    expect(await leaseLeft()).toBeLessThanOrEqual(LEASE_MS);
    await pass(HOUR_MS);
    expect(await leaseLeft()).toBeLessThanOrEqual(LEASE_MS - HOUR_MS);
    await first.clock.advance(LEASE_RENEWED_EVERY_MS, async () => undefined);
    await untilTrue(async () => (await leaseLeft()) > LEASE_MS - HOUR_MS / 2);
    await membership.close();
    expect(await leaseLeft()).toBeLessThanOrEqual(0);
  });

  test("a second data folder is refused with the name of the holder, live or not", async () => {
    const [first, other] = [await server(FIRST), await server(OTHER)];
    const membership = await first.join();
    await pass(-HOUR_MS);
    await expect(other.join()).rejects.toThrow(/in use by the server first; .*FIX: .*SANDLOT_STORE/);
    await pass(2 * HOUR_MS);
    await expect(other.join()).rejects.toThrow(/belongs to the data folder of the server first, which does not run/);
    expect(await nodes()).toHaveLength(1);
    await membership.close();
  });

  test("of many data folders that start at once on an empty database, one is admitted", async () => {
    const many = await Promise.all(
      [1, 2, 3, 4].map((nth) => server({ ...OTHER, identity: `f${nth}`, name: `n${nth}` })),
    );
    const results = await Promise.allSettled(many.map(({ join }) => join()));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await nodes()).toHaveLength(1);
    for (const result of results) if (result.status === "fulfilled") await result.value.close();
  });

  test("the same data folder takes over at once after a crash, and the earlier run can change nothing more", async () => {
    const [crashed, next] = [await server(FIRST), await server({ ...FIRST, name: "renamed" })];
    const before = await crashed.join();
    const after = await next.join();
    expect(after.epoch).toBe(before.epoch + 1);
    expect(await nodes()).toMatchObject([{ name: "renamed" }]);
    await crashed.clock.advance(LEASE_RENEWED_EVERY_MS, async () => undefined);
    await untilTrue(() => crashed.lines.some((line) => line.includes("has taken this server's place")));
    await expect(crashed.store.people.teams()).rejects.toMatchObject({ status: 503 });
    await expect(crashed.store.transaction(async () => 1)).rejects.toThrow(
      "another server has taken the place of first",
    );
    await next.store.people.teams();
    await after.close();
  });

  test("after a restart of the machine, the server waits for the lease of its earlier run", async () => {
    const [crashed, next] = [await server(FIRST), await server({ ...FIRST, boot: "boot-9" })];
    const before = await crashed.join();
    const joining = next.join();
    await untilTrue(() => next.clock.timers === 1);
    await pass(LEASE_MS);
    await next.clock.advance(LEASE_MS, async () => undefined);
    const after = await joining;
    expect(after.epoch).toBe(before.epoch + 1);
    await after.close();
  });

  test("a copy of the data folder on a second machine is refused while the first one runs", async () => {
    const [first, copy] = [await server(FIRST), await server({ ...FIRST, boot: "boot-9" })];
    const membership = await first.join();
    const joining = copy.join();
    let isOver = false;
    void joining.catch(() => {
      isOver = true;
    });
    await untilTrue(async () => {
      await copy.clock.advance(LEASE_MS, async () => undefined);
      return isOver;
    });
    await expect(joining).rejects.toThrow("another machine serves a copy of this data folder");
    await membership.close();
  });

  test("without a renewal for a whole lease, the store rejects everything until the next one", async () => {
    const first = await server(FIRST);
    const membership = await first.join();
    const renew = first.store.nodes.renew;
    Object.assign(first.store.nodes, { renew: () => Promise.reject(new Error("no connection")) });
    const advance = (ms: number) => first.clock.advance(ms, () => Bun.sleep(0));
    await advance(LEASE_MS - 1);
    await first.store.people.teams();
    await advance(1);
    await expect(first.store.people.teams()).rejects.toMatchObject({ status: 503 });
    const lost = first.lines.filter((line) => line.includes("the database is not available"));
    expect(lost).toHaveLength(1);
    Object.assign(first.store.nodes, { renew });
    await untilTrue(async () => {
      await advance(LEASE_RENEWED_EVERY_MS);
      return first.store.people.teams().then(
        () => true,
        () => false,
      );
    });
    expect(first.lines.at(-1)).toContain("the database is available again");
    await membership.close();
  });
});
