/** Expiry on time, also after a server restart. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { systemClock } from "../../../base/clock.ts";
import { jsonLog } from "../../../base/log.ts";
import { timed } from "../../../base/testing/timed.ts";
import { FakeHost } from "../../../host/testing/fake-host.ts";
import { createControl } from "../../control.ts";
import { ControlFixture, NOW } from "../../testing/control-fixture.ts";
import { IdleThread } from "../../testing/idle-thread.ts";
import { lateness } from "../../testing/lateness.ts";
import { REMOVALS_AT_ONCE } from "../transitions/sandbox-removal.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("expiry", () => {
  test("happens at its time, not before", async () => {
    const id = await fixture.create({ timeout: 30 });
    await fixture.advance(29_999);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(200);
    await fixture.advance(1);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect(fixture.host.destroyed).toEqual([id]);
    expect(fixture.find(id)).toBeUndefined();
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("follows a changed end in both directions, and the next sandbox", async () => {
    const [first, second, third] = [
      await fixture.create({ timeout: 30 }),
      await fixture.create({ timeout: 40 }),
      await fixture.create({ timeout: 50 }),
    ];
    await fixture.call("POST", `/sandboxes/${first}/timeout`, { timeout: 100 });
    await fixture.call("POST", `/sandboxes/${third}/timeout`, { timeout: 5 });
    await fixture.advance(5_000);
    expect(fixture.host.destroyed).toEqual([third]);
    await fixture.advance(34_999);
    expect(fixture.host.destroyed).toEqual([third]);
    await fixture.advance(1);
    expect(fixture.host.destroyed).toEqual([third, second]);
    await fixture.advance(60_000);
    expect(fixture.host.destroyed).toEqual([third, second, first]);
  });

  test("of a short timeout is not delayed by a longer one that began later", async () => {
    const short = await fixture.create({ timeout: 30 });
    await fixture.create({ timeout: 3_000 });
    await fixture.advance(30_000);
    expect(fixture.host.destroyed).toEqual([short]);
  });

  timed("within 100 ms on the real clock", async () => {
    const late = await lateness(fixture, { autoPause: false });
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(100);
  });

  timed("a thousand in one second on the real clock, after a restart, each within 100 ms", async () => {
    // In memory, because the test does not measure thousands of writes to the disk.
    const folder = mkdtempSync("/dev/shm/sandlot-expiry-");
    await using fixture = await ControlFixture.open(new FakeHost(), `sqlite://${folder}/sandlot.db`);
    const { sandboxes } = fixture.store;
    for (let nth = 0; nth < 1_000; nth++) await fixture.create({ timeout: 600, autoPause: nth % 2 === 0 });
    await fixture.control.close();
    const first = Date.now() + 1_000;
    for (const [nth, row] of (await sandboxes.inState("running")).entries()) {
      await sandboxes.setEnd(row, first + nth, fixture.clock.now());
    }
    // As on a real machine: each operation on a sandbox takes a moment, in which others run.
    fixture.host.beforeDestroy = () => Bun.sleep(5);
    fixture.host.beforePause = () => Bun.sleep(5);
    const late: number[] = [];
    const { takeDue } = sandboxes;
    sandboxes.takeDue = async (now) => {
      const taken = await takeDue(now);
      late.push(...taken.map(({ endAt }) => Date.now() - endAt));
      return taken;
    };
    const control = createControl({
      ...fixture.services,
      clock: systemClock,
      log: jsonLog(() => undefined),
      activity: {},
    });
    using bystander = await IdleThread.start();
    await control.start();
    try {
      await fixture.until(() => late.length === 1_000);
      expect(Math.max(...late)).toBeLessThan(100 + (await bystander.worstMs()));
    } finally {
      await control.close();
      rmSync(folder, { recursive: true });
    }
  });

  test("an end 68 years away arms no timer that would fire at once", async () => {
    const id = await fixture.create({ timeout: 2_147_483_647 });
    expect(fixture.clock.timers).toBe(1);
    await fixture.advance(3_600_000);
    expect(fixture.host.running).toEqual([id]);
    await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 1 });
    await fixture.advance(1_000);
    expect(fixture.host.running).toEqual([]);
    expect(fixture.clock.timers).toBe(0);
  });

  timed("a thousand due together change state together, before the first slow clean-up", async () => {
    const ids: string[] = [];
    for (let nth = 0; nth < 1_000; nth++) ids.push(await fixture.create({ timeout: 10 }));
    const held = Promise.withResolvers<void>();
    let together = 0;
    let most = 0;
    fixture.host.beforeDestroy = async () => {
      most = Math.max(most, ++together);
      await held.promise;
      together--;
    };
    const passed = fixture.advance(10_000);
    const startedAt = performance.now();
    await fixture.until(async () => (await fixture.store.sandboxes.inState("running")).length === 0);
    const tookMs = performance.now() - startedAt;
    expect((await fixture.store.sandboxes.inState("killing")).length).toBe(1_000);
    expect((await fixture.call("GET", "/v2/sandboxes")).headers.get("x-total-running")).toBe("0");
    const reachable = ids.map((id) => fixture.find(id));
    expect(reachable.filter((destination) => destination !== undefined)).toEqual([]);
    held.resolve();
    await passed;
    expect(most).toBe(REMOVALS_AT_ONCE);
    expect(fixture.host.destroyed.toSorted()).toEqual(ids.toSorted());
    expect(await fixture.store.sandboxes.inState("killing")).toEqual([]);
    // Checked last, because a retry can only begin when nothing of this try is held any more.
    expect(tookMs).toBeLessThan(100);
  });

  test("is not delayed by sandboxes that do not end", async () => {
    const held = Promise.withResolvers<void>();
    const stuck = new Set<string>();
    for (let nth = 0; nth < 2 * REMOVALS_AT_ONCE; nth++) stuck.add(await fixture.create({ timeout: 10 }));
    const others = [await fixture.create({ timeout: 10 }), await fixture.create({ timeout: 11 })];
    fixture.host.beforeDestroy = (id) => (stuck.has(id) ? held.promise : Promise.resolve());
    const gone = async () =>
      (await Promise.all(others.map((id) => fixture.store.sandboxes.byId(id)))).every((row) => !row);
    await fixture.until(async () => {
      await fixture.clock.advance(1_000, async () => undefined);
      return await gone();
    });
    expect(await fixture.store.sandboxes.inState("killing")).toHaveLength(stuck.size);
    held.resolve();
    await fixture.control.settled();
    expect(await fixture.store.sandboxes.inState("killing")).toEqual([]);
  });

  test("is only delayed by a short failure of the store", async () => {
    const id = await fixture.create({ timeout: 1 });
    const { takeDue } = fixture.store.sandboxes;
    let failures = 1;
    fixture.store.sandboxes.takeDue = (now) =>
      failures-- > 0 ? Promise.reject(new Error("database is locked")) : takeDue(now);
    await fixture.advance(1_000);
    expect(fixture.host.destroyed).toEqual([]);
    await fixture.advance(250);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("is tried less often, with fewer log lines, the longer an outage of the store lasts", async () => {
    const id = await fixture.create({ timeout: 1 });
    const { takeDue } = fixture.store.sandboxes;
    let attempts = 0;
    fixture.store.sandboxes.takeDue = () => {
      attempts += 1;
      return Promise.reject(new Error("database is locked"));
    };
    await fixture.advance(61_000);
    expect(attempts).toBe(16);
    expect(fixture.logLines.filter((line) => line.includes("expiry could not reach the store"))).toHaveLength(5);
    fixture.store.sandboxes.takeDue = takeDue;
    await fixture.advance(5_000);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("stops with control", async () => {
    await fixture.create({ timeout: 1 });
    await fixture.control.close();
    expect(fixture.clock.timers).toBe(0);
    expect((await fixture.call("GET", "/health")).status).toBe(503);
    expect((await fixture.call("GET", "/sandboxes")).status).toBe(503);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "base" })).status).toBe(503);
    await fixture.control.start();
    expect((await fixture.call("GET", "/health")).status).toBe(200);
  });
});

describe("after a restart", () => {
  test("running sandboxes keep their end, key and token", async () => {
    const id = await fixture.create({ timeout: 100, secure: true });
    const before = (await fixture.call("GET", `/sandboxes/${id}`)).body;
    await fixture.advance(10_000);
    await fixture.restart();
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body).toEqual(before);
    expect(fixture.find(id)).toMatchObject({ endpoint: { host: "127.0.0.1" } });
    await fixture.advance(90_000);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("ended sandboxes are removed, and unknown ones are not kept", async () => {
    const [gone, stays] = [await fixture.create(), await fixture.create()];
    const orphan = await fixture.host.create({
      kind: fixture.host.requestOf(stays)?.kind ?? fail(),
      envVars: {},
      accessTokens: [],
      egress: "open",
    });
    await fixture.control.close();
    await fixture.host.destroy(gone);
    await fixture.restart();
    await fixture.control.settled();
    expect(await fixture.store.sandboxes.byId(gone)).toBeUndefined();
    expect((await fixture.call("GET", "/sandboxes")).body.map((sandbox) => sandbox.sandboxID)).toEqual([stays]);
    expect(fixture.host.running).toEqual([stays]);
    expect(fixture.find(orphan.id)).toBeUndefined();
  });

  test("sandboxes that expired meanwhile end at once", async () => {
    const id = await fixture.create({ timeout: 5 });
    await fixture.control.close();
    await fixture.clock.advance(60_000, async () => undefined);
    await fixture.restart();
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    await fixture.advance(0);
    expect(fixture.host.running).toEqual([]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("a kill that the crash interrupted is completed", async () => {
    const id = await fixture.create();
    const row = await fixture.store.sandboxes.byId(id);
    await fixture.control.close();
    expect((await fixture.store.sandboxes.kill({ id, executionId: row?.executionId ?? "" }))?.state).toBe("killing");
    await fixture.restart();
    await fixture.control.settled();
    expect(fixture.host.running).toEqual([]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.clock.now()).toBe(NOW);
  });
});

function fail(): never {
  throw new Error("the host does not know its sandbox");
}
