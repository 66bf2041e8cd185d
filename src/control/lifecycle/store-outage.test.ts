/** Sandboxes that end, and creates that fail, while the store is unavailable. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { UncertainOutcome } from "../../contract/fault.ts";
import { STORE_RETRY_MAX_MS } from "../limits.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { outageOf, settledOf } from "../testing/store-outage.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const settled = () => settledOf(fixture);

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
  expect(await fixture.store.sandboxes.inState("running")).toEqual([]);
});

// Guards against a key whose every use is rejected for a day.
test("the key of a failed create is free when the store is back", async () => {
  const outage = outageOf(fixture.store.idempotencyKeys, "free");
  const { transaction } = fixture.store;
  fixture.store.transaction = async (...args) => {
    fixture.store.transaction = transaction;
    await transaction.apply(fixture.store, args);
    throw new UncertainOutcome("the connection is lost", 2, undefined);
  };
  const create = () =>
    fixture.call("POST", "/sandboxes", { templateID: "base", timeout: 60 }, { "Idempotency-Key": "one" });
  expect((await create()).status).toBe(503);
  await fixture.until(() => outage.refused > 1);
  outage.end();
  await settled();
  expect((await create()).status).toBe(201);
});
