/** A team blocked by the operator: it starts nothing, but can still view, keep and end what it has. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";
import { storeTemplate } from "../testing/stored-templates.ts";

let f: ControlFixture;
let awake: string;
let asleep: string;
beforeEach(async () => {
  f = await ControlFixture.open();
  [awake, asleep] = [await f.create({ timeout: 600 }), await f.create({ timeout: 600, autoResume: { enabled: true } })];
  await f.call("POST", `/sandboxes/${asleep}/pause`);
  await storeTemplate(f, "mine");
  await block(true);
});
afterEach(() => f[Symbol.asyncDispose]());

const block = (blocked: boolean) => f.store.people.setLimits(f.firstRun.teamId, { blocked });

test.each([
  ["create", () => f.call("POST", "/sandboxes", { templateID: "base" }), 201],
  ["v2 create", () => f.call("POST", "/v2/sandboxes", { templateID: "base" }), 201],
  ["resume", () => f.call("POST", `/sandboxes/${asleep}/resume`), 201],
  ["connect to a paused sandbox", () => f.call("POST", `/sandboxes/${asleep}/connect`, { timeout: 5 }), 201],
  ["v2 connect to a paused sandbox", () => f.call("POST", `/v2/sandboxes/${asleep}/connect`), 201],
  ["publish", () => f.call("PATCH", "/v2/templates/mine", { public: true }), 200],
  ["publish by a bare name", () => f.call("PATCH", "/templates/mine", { public: true }), 200],
  ["tag", () => f.call("POST", "/templates/tags", { target: "mine", tags: ["v1"] }), 201],
  ["fork", () => f.call("POST", `/sandboxes/${awake}/fork`), 201],
])("%s is refused with 403 until it is no longer blocked", async (_, act, otherwise) => {
  let captures = 0;
  f.host.beforeSnapshot = async () => void captures++;
  const reply = await act();
  expect([reply.status, reply.body.message]).toEqual([403, expect.stringContaining("team is blocked")]);
  expect([f.host.running, f.host.checkpoints.length, captures]).toEqual([[awake], 1, 0]);
  await block(false);
  expect((await act()).status).toBe(otherwise);
});

test("traffic does not wake sandboxes of a blocked team", async () => {
  const wake = () =>
    f.control.directory.wake(asleep, { port: 3000, accessToken: null, trafficToken: null, mayWake: true });
  expect(await wake()).toEqual({ refused: "forbidden" });
  await block(false);
  expect(await wake()).toHaveProperty("woken");
});

test("reading, connecting to running sandboxes, setting timeouts, pausing and killing still work", async () => {
  const call = async (method: string, path: string, body?: unknown) => (await f.call(method, path, body)).status;
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
