/** Template changes by the operator beside the server, and how the server learns of them. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { KeptReady } from "../../contract/internal/host.ts";
import { baseTemplate, ControlFixture } from "../testing/control-fixture.ts";
import { setKeptReady, setRuntime } from "./operator-templates.ts";
import { KEPT_READY_CHECK_MS } from "./ready-pool-targets.ts";

let fixture: ControlFixture;
let reported: (readonly KeptReady[])[];
beforeEach(async () => {
  fixture = await ControlFixture.open();
  await fixture.control.settled();
  reported = [];
  const keepReady = fixture.host.keepReady.bind(fixture.host);
  fixture.host.keepReady = async (kept) => {
    reported.push(kept);
    await keepReady(kept);
  };
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function snapshot(name: string): Promise<void> {
  const id = await fixture.create({ timeout: 600 });
  expect((await fixture.call("POST", `/sandboxes/${id}/snapshots`, { name })).status).toBe(201);
}

const set = (written: string, count: number) =>
  setKeptReady(fixture.store, "default", { written, count }, [], fixture.services);

test("a ready number set by the command reaches the host within seconds, once", async () => {
  await snapshot("web");
  await fixture.passBy(KEPT_READY_CHECK_MS);
  expect(reported).toEqual([]);
  const { id } = await set("web", 3);
  await fixture.passBy(KEPT_READY_CHECK_MS);
  await fixture.passBy(3 * KEPT_READY_CHECK_MS);
  const ofTeam = reported.map((kept) => kept.filter(({ kind }) => kind.templateId !== baseTemplate.id));
  expect(ofTeam.map((kept) => kept.map(({ kind, count }) => [kind.templateId, count]))).toEqual([[[id, 3]]]);
  expect((await set("default/web:default", 0)).keptReady).toBe(0);
  await fixture.passBy(KEPT_READY_CHECK_MS);
  expect(reported.at(-1)).toHaveLength(1);
  await set(id, 1);
  await fixture.passBy(KEPT_READY_CHECK_MS);
  expect(reported.at(-1)).toHaveLength(2);
});

test("a failed call to the host is repeated", async () => {
  await snapshot("web");
  await set("web", 2);
  const { keepReady } = fixture.host;
  fixture.host.keepReady = async () => {
    throw new Fault(503, "not now");
  };
  await fixture.passBy(KEPT_READY_CHECK_MS);
  fixture.host.keepReady = keepReady;
  await fixture.passBy(KEPT_READY_CHECK_MS);
  expect(reported.at(-1)).toHaveLength(2);
});

test("sandboxes of a template use the isolation runtime that the operator chose, and so do its snapshots", async () => {
  const runtimeNameOf = (id: string) => fixture.host.requestOf(id)?.kind.wall;
  await setRuntime(fixture.store, "default", "base", "runsc", fixture.services);
  const behind = await fixture.create({ timeout: 600 });
  expect(runtimeNameOf(behind)).toBe("runsc");
  await fixture.passBy(KEPT_READY_CHECK_MS);
  expect(reported.at(-1)?.map(({ kind }) => kind.wall)).toEqual(["runsc"]);
  expect((await fixture.call("POST", `/sandboxes/${behind}/snapshots`, { name: "kept" })).status).toBe(201);
  // The template it was made from has another isolation runtime from now on; its memory has not.
  await setRuntime(fixture.store, "default", "base", null, fixture.services);
  expect(runtimeNameOf(await fixture.create({ templateID: "kept", timeout: 600 }))).toBe("runsc");
  expect(runtimeNameOf(await fixture.create({ timeout: 600 }))).toBeUndefined();
});

test.each([
  ["base", 400, "SANDLOT_READY"],
  ["web:v2", 400, 'leave out ":v2"'],
  ["no-such-template", 404, "sandlot templates"],
  ["strangers/web", 404, "strangers/web"],
  ["../etc", 400, "invalid template reference"],
])("%s cannot have a ready number", async (written, status, reason) => {
  await snapshot("web");
  const refusal = await set(written, 1).catch((fault: unknown) => fault);
  expect(refusal).toMatchObject({ status, message: expect.stringContaining(reason) });
});
