/** Private networks opened to sandboxes, and how a change reaches running sandboxes. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { PRIVATE_NAME_KEPT_MS, PRIVATE_NETWORKS_REFRESH_MS } from "./private-networks.ts";
import { BuildCalls } from "./testing/build-calls.ts";
import { ControlFixture } from "./testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  fixture.host.names.set("git.test", ["10.2.0.1"]);
  fixture.privateRanges = ["10.1.0.0/16", "git.test"];
  await fixture.restart();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const opened = (id: string) => {
  const egress = fixture.host.requestOf(id)?.egress;
  return typeof egress === "object" ? egress.privateRanges : egress;
};
const pass = (ms: number) => fixture.passBy(ms);
const USUAL = ["10.1.0.0/16", "10.2.0.1/32"];

test("sandboxes and builds get the ranges of the setting, through pause, fork and changes of their rules", async () => {
  const id = await fixture.create({ timeout: 3600 });
  expect(opened(id)).toEqual(USUAL);
  await fixture.call("PUT", `/sandboxes/${id}/network`, { denyOut: ["10.1.2.3"] });
  expect(opened(id)).toEqual(USUAL);
  const [fork] = (await fixture.call("POST", `/sandboxes/${id}/fork`, {})).body as unknown as {
    sandbox: { sandboxID: string };
  }[];
  expect(opened(fork?.sandbox.sandboxID ?? "")).toEqual(USUAL);
  await fixture.call("POST", `/sandboxes/${id}/pause`);
  await fixture.call("POST", `/sandboxes/${id}/resume`, {});
  expect(opened(id)).toEqual(USUAL);
  await fixture.call("PUT", `/sandboxes/${id}/network`, { allow_internet_access: false });
  expect(opened(id)).toBe("closed");
  const calls = new BuildCalls(fixture);
  const held = calls.hold();
  await held.begun(await calls.begin("web"));
  expect(held.requests[0]?.privateRanges).toEqual(USUAL);
});

test("a team's limit replaces the setting, and reaches running sandboxes", async () => {
  const id = await fixture.create({ timeout: 3600 });
  await fixture.store.people.setLimits(fixture.firstRun.teamId, { private: ["10.9.0.0/24"] });
  expect(opened(await fixture.create())).toEqual(["10.9.0.0/24"]);
  expect(opened(id)).toEqual(USUAL);
  await pass(PRIVATE_NETWORKS_REFRESH_MS);
  expect(opened(id)).toEqual(["10.9.0.0/24"]);
  await fixture.store.people.setLimits(fixture.firstRun.teamId, { private: [] });
  await pass(PRIVATE_NETWORKS_REFRESH_MS);
  expect(opened(id)).toBe("open");
});

test("a name opens its current addresses, never metadata services, and closes soon after it is gone", async () => {
  const id = await fixture.create({ timeout: 3600 });
  fixture.host.names.set("git.test", ["10.2.0.2", "169.254.169.254", "127.0.0.1"]);
  await pass(PRIVATE_NETWORKS_REFRESH_MS);
  expect(opened(id)).toEqual(["10.1.0.0/16", "10.2.0.2/32"]);
  fixture.host.names.delete("git.test");
  await pass(PRIVATE_NETWORKS_REFRESH_MS);
  expect(opened(id)).toEqual(["10.1.0.0/16", "10.2.0.2/32"]);
  await pass(PRIVATE_NAME_KEPT_MS);
  expect(opened(id)).toEqual(["10.1.0.0/16"]);
});

test("a changed setting applies after the next start, also to running sandboxes", async () => {
  const id = await fixture.create({ timeout: 3600 });
  fixture.privateRanges = [];
  await fixture.restart();
  await fixture.control.settled();
  expect(opened(id)).toBe("open");
});

test("a proxy may be at an opened address", async () => {
  for (const [address, status] of [
    ["10.1.2.3:1080", 201],
    ["git.test:1080", 201],
    ["10.3.0.1:1080", 400],
  ] as const) {
    const network = { egressProxy: { address } };
    expect((await fixture.call("POST", "/sandboxes", { templateID: "base", network })).status).toBe(status);
  }
});
