/** A team blocked by the operator: it starts nothing, but can still view, keep and end what it has. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";
import { storeTemplate } from "../testing/stored-templates.ts";

let fixture: ControlFixture;
let awake: string;
let asleep: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  [awake, asleep] = [
    await fixture.create({ timeout: 600 }),
    await fixture.create({ timeout: 600, autoResume: { enabled: true } }),
  ];
  await fixture.call("POST", `/sandboxes/${asleep}/pause`);
  await storeTemplate(fixture, "mine");
  await block(true);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const block = (blocked: boolean) => fixture.store.people.setLimits(fixture.firstRun.teamId, { blocked });

test.each([
  ["create", () => fixture.call("POST", "/sandboxes", { templateID: "base" }), 201],
  ["v2 create", () => fixture.call("POST", "/v2/sandboxes", { templateID: "base" }), 201],
  ["resume", () => fixture.call("POST", `/sandboxes/${asleep}/resume`), 201],
  ["connect to a paused sandbox", () => fixture.call("POST", `/sandboxes/${asleep}/connect`, { timeout: 5 }), 201],
  ["v2 connect to a paused sandbox", () => fixture.call("POST", `/v2/sandboxes/${asleep}/connect`), 201],
  ["publish", () => fixture.call("PATCH", "/v2/templates/mine", { public: true }), 200],
  ["publish by a bare name", () => fixture.call("PATCH", "/templates/mine", { public: true }), 200],
  ["tag", () => fixture.call("POST", "/templates/tags", { target: "mine", tags: ["v1"] }), 201],
  ["fork", () => fixture.call("POST", `/sandboxes/${awake}/fork`), 201],
])("%s is refused with 403 until it is no longer blocked", async (_, act, otherwise) => {
  let captures = 0;
  fixture.host.beforeSnapshot = async () => void captures++;
  const reply = await act();
  expect([reply.status, reply.body.message]).toEqual([403, expect.stringContaining("team is blocked")]);
  expect([fixture.host.running, fixture.host.checkpoints.length, captures]).toEqual([[awake], 1, 0]);
  await block(false);
  expect((await act()).status).toBe(otherwise);
});

test("traffic does not wake sandboxes of a blocked team", async () => {
  const wake = () =>
    fixture.control.directory.wake(asleep, { port: 3000, accessToken: null, trafficToken: null, mayWake: true });
  expect(await wake()).toEqual({ refused: "forbidden" });
  await block(false);
  expect(await wake()).toHaveProperty("woken");
});

test("reading, connecting to running sandboxes, setting timeouts, pausing and killing still work", async () => {
  const call = async (method: string, path: string, body?: unknown) => (await fixture.call(method, path, body)).status;
  expect(await call("GET", "/v2/sandboxes")).toBe(200);
  expect(await call("GET", `/sandboxes/${asleep}`)).toBe(200);
  expect(await call("GET", "/templates/mine/tags")).toBe(200);
  expect(await call("DELETE", "/templates/tags", { name: "mine", tags: ["v1"] })).toBe(204);
  expect(await call("DELETE", "/templates/mine")).toBe(204);
  expect(await call("POST", `/v2/sandboxes/${awake}/connect`)).toBe(200);
  expect(await call("POST", `/sandboxes/${awake}/timeout`, { timeout: 30 })).toBe(204);
  expect(await call("POST", `/sandboxes/${awake}/pause`)).toBe(204);
  expect(await call("DELETE", `/sandboxes/${awake}`)).toBe(204);
  expect(await call("DELETE", `/sandboxes/${asleep}`)).toBe(204);
});
