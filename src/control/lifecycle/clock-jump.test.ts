/**
 * The machine's wall clock is set while sandboxes run. End times are times of day, so they move with it; nothing else
 * may.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { EXPIRY_SLEEP_MAX_MS } from "../limits.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { TRANSITION_WAIT_MS } from "./transition-wait.ts";

const HOUR_MS = 3_600_000;

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

test("forward past an end: ended for every reader at once, and removed within a minute", async () => {
  const id = await fixture.create({ timeout: 1_800 });
  const other = await fixture.create({ timeout: 7_200 });
  fixture.clock.jump(HOUR_MS);
  expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
  expect((await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 60 })).status).toBe(409);
  await fixture.advance(EXPIRY_SLEEP_MAX_MS);
  expect(fixture.host.destroyed).toEqual([id]);
  expect((await fixture.call("GET", `/sandboxes/${other}`)).status).toBe(200);
});

test("forward past an end with autoPause: paused, not killed, and resumable", async () => {
  const id = await fixture.create({ timeout: 1_800, autoPause: true });
  fixture.clock.jump(HOUR_MS);
  await fixture.advance(EXPIRY_SLEEP_MAX_MS);
  expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  expect((await fixture.call("POST", `/sandboxes/${id}/resume`, { timeout: 60 })).status).toBe(201);
  await fixture.advance(59_999);
  expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("running");
});

test("back: sandboxes end at their time, not before", async () => {
  const id = await fixture.create({ timeout: 30 });
  fixture.clock.jump(-HOUR_MS);
  await fixture.advance(HOUR_MS + 29_999);
  expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(200);
  expect(fixture.host.destroyed).toEqual([]);
  await fixture.advance(1);
  expect(fixture.host.destroyed).toEqual([id]);
});

test("back and forth again: no effect", async () => {
  const id = await fixture.create({ timeout: 30 });
  fixture.clock.jump(-HOUR_MS);
  await fixture.advance(10_000);
  fixture.clock.jump(HOUR_MS);
  await fixture.advance(19_999);
  expect(fixture.host.destroyed).toEqual([]);
  await fixture.advance(EXPIRY_SLEEP_MAX_MS);
  expect(fixture.host.destroyed).toEqual([id]);
});

test("back while a caller waits for a pause: the wait is not longer", async () => {
  const id = await fixture.create({ timeout: 7_200 });
  const { begun, finish } = fixture.hold("beforePause");
  const pausing = fixture.call("POST", `/sandboxes/${id}/pause`, {});
  await begun;
  const waiting = fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 60 });
  await fixture.until(() => fixture.clock.timers === 2);
  fixture.clock.jump(-HOUR_MS);
  await fixture.clock.advance(TRANSITION_WAIT_MS, () => Bun.sleep(1));
  expect((await waiting).status).toBe(409);
  finish();
  expect((await pausing).status).toBe(204);
});

test("a restart after the clock was set back by a day keeps running sandboxes", async () => {
  const id = await fixture.create({ timeout: 600 });
  fixture.clock.jump(-24 * HOUR_MS);
  await fixture.restart();
  expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(200);
  expect(fixture.host.destroyed).toEqual([]);
});
