/** Sandboxes that end while the store is unavailable. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { STORE_RETRY_MAX_MS } from "../limits.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** The store refuses these calls until `end`. `refused` counts them. */
function outageOf(table: object, name: string): { refused: number; end(): void } {
  const real = Reflect.get(table, name);
  const outage = { refused: 0, end: () => void Reflect.set(table, name, real) };
  const refuse = () => {
    outage.refused += 1;
    return Promise.reject(new Fault(503, "the database is not available"));
  };
  Reflect.set(table, name, refuse);
  return outage;
}

/** Lets time pass until the background work is done. */
async function settled(): Promise<void> {
  let isDone = false;
  const done = fixture.control.settled().then(() => {
    isDone = true;
  });
  await untilTrue(async () => {
    await fixture.clock.advance(STORE_RETRY_MAX_MS, () => fixture.untilIdle());
    return isDone;
  });
  await done;
}

// Guards against a sandbox that is listed as running until its end time.
test.each(["byId", "endRunning"] as const)("a loss is recorded when the store is back: %s", async (call) => {
  const id = await fixture.create({ timeout: 3_600 });
  const outage = outageOf(fixture.store.sandboxes, call);
  fixture.host.lose(id);
  await fixture.until(() => outage.refused > 0);
  await fixture.clock.advance(60_000, () => fixture.untilIdle());
  outage.end();
  await settled();
  expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  expect(fixture.eventsOf(id)).toEqual(["created", "killed"]);
});

test("a loss that could not be recorded does not end the next run of the sandbox", async () => {
  const id = await fixture.create({ timeout: 3_600 });
  const outage = outageOf(fixture.store.sandboxes, "byId");
  fixture.host.listener({ kind: "lost", id, reason: "its first process ended" });
  await fixture.until(() => outage.refused > 0);
  outage.end();
  expect((await fixture.call("POST", `/sandboxes/${id}/pause`)).status).toBe(204);
  expect((await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 3_600 })).status).toBe(201);
  await settled();
  expect((await fixture.store.sandboxes.byId(id))?.state).toBe("running");
  expect(fixture.eventsOf(id)).toEqual(["created", "paused", "resumed"]);
});

// Guards against a row of a sandbox that runs nowhere.
test("a sandbox that ends during its create is removed when the store is back", async () => {
  const outage = outageOf(fixture.store.sandboxes, "endRunning");
  const { transaction } = fixture.store;
  fixture.store.transaction = async (...args) => {
    fixture.store.transaction = transaction;
    const added = await transaction.apply(fixture.store, args);
    for (const id of fixture.host.running) fixture.host.lose(id);
    return added as never;
  };
  const creating = fixture.call("POST", "/sandboxes", { templateID: "base", timeout: 3_600 });
  await fixture.until(() => outage.refused > 0);
  outage.end();
  await settled();
  const isOver = creating.then(({ status }) => status);
  await fixture.clock.advance(STORE_RETRY_MAX_MS, () => fixture.untilIdle());
  expect(await isOver).toBe(503);
  await settled();
  expect((await fixture.call("GET", "/sandboxes")).body).toEqual([]);
});
