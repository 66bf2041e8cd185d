/** Recovery at start-up of operations that the last run left unfinished. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { ControlFixture } from "../../testing/control-fixture.ts";

let fixture: ControlFixture;
let row: Sandbox;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  const id = await fixture.create({ timeout: 60 });
  row = (await fixture.store.sandboxes.byId(id)) ?? fail();
  await fixture.control.close();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const to = { checkpoint: "half", memory: true, now: 0 };

async function state(): Promise<string> {
  await fixture.restart();
  await fixture.control.settled();
  const now = await fixture.store.sandboxes.byId(row.id);
  const shown = await fixture.call("GET", `/sandboxes/${row.id}`);
  const reached = fixture.find(row.id) !== undefined;
  expect(reached).toBe(now?.state === "running");
  expect(now?.checkpoint ?? null).toBe(now?.state === "paused" ? "half" : null);
  return `${now?.state ?? "gone"}, shown ${shown.status === 200 ? shown.body.state : shown.status}`;
}

test("a pause that had not begun: the sandbox runs on to its end", async () => {
  await fixture.store.sandboxes.beginPause(row, to);
  expect(await state()).toBe("running, shown running");
  await fixture.advance(60_000);
  expect(fixture.host.destroyed).toEqual([row.id]);
});

test("a complete but unrecorded pause: paused, and it can be resumed", async () => {
  await fixture.store.sandboxes.beginPause(row, to);
  await fixture.host.pause(row.id, "half", { memory: true });
  expect(await state()).toBe("paused, shown paused");
  expect(fixture.eventsOf(row.id)).toEqual(["created", "paused"]);
  expect((await fixture.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect(fixture.host.contentsOf(row.id)).toEqual({ boot: 1, disk: 1 });
});

test("a pause that left sandbox and checkpoint: the sandbox runs on, the checkpoint is removed", async () => {
  await fixture.store.sandboxes.beginPause(row, to);
  await fixture.host.snapshot(row.id, "half", { memory: true });
  expect(await state()).toBe("running, shown running");
  expect(fixture.host.checkpoints).toEqual([]);
});

test("a pause that left neither: the sandbox is gone", async () => {
  await fixture.store.sandboxes.beginPause(row, to);
  await fixture.host.destroy(row.id);
  expect(await state()).toBe("gone, shown 404");
});

test("a pause with a kill request: the sandbox and its checkpoint are gone", async () => {
  await fixture.store.sandboxes.beginPause(row, to);
  await fixture.host.pause(row.id, "half", { memory: true });
  await fixture.store.sandboxes.kill(row);
  expect(await state()).toBe("gone, shown 404");
  expect(fixture.host.checkpoints).toEqual([]);
});

test("an automatic pause is due again at once", async () => {
  await fixture.restart();
  const id = await fixture.create({ timeout: 5, autoPause: true });
  await fixture.control.close();
  await fixture.clock.advance(60_000, async () => undefined);
  await fixture.store.sandboxes.takeDue(fixture.clock.now());
  await fixture.restart();
  expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  await fixture.advance(0);
  expect((await fixture.store.sandboxes.byId(id))?.state).toBe("paused");
  expect(fixture.host.checkpoints).toHaveLength(1);
});

test.each([false, true])("a resume, the sandbox alive or not (%p): paused as it was", async (alive) => {
  await fixture.store.sandboxes.beginPause(row, to);
  await fixture.host.pause(row.id, "half", { memory: true });
  await fixture.store.sandboxes.finishPause(row);
  await fixture.store.sandboxes.beginResume(row, "run-2");
  if (alive) {
    const kind = { image: "base", templateId: "t", cpuCount: 1, memoryMB: 128, diskSizeMB: 1 };
    const request = { kind: { ...kind, defaultUser: "user", defaultWorkdir: "" }, envVars: {}, accessTokens: [] };
    await fixture.host.resume({ ...request, id: row.id, checkpoint: "half", memory: true, egress: "open" });
  }
  expect(await state()).toBe("paused, shown paused");
  expect(fixture.host.running).toEqual([]);
  expect((await fixture.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect(fixture.host.contentsOf(row.id)).toEqual({ boot: 1, disk: 1 });
});

test("a snapshot: the sandbox runs on, and the unrecorded checkpoint is removed", async () => {
  await fixture.store.sandboxes.beginSnapshot(row, 0);
  await fixture.host.snapshot(row.id, "unrecorded", { memory: true });
  expect(await state()).toBe("running, shown running");
  expect(fixture.host.checkpoints).toEqual([]);
});

test("a snapshot of a sandbox that died: the sandbox is gone", async () => {
  await fixture.store.sandboxes.beginSnapshot(row, 0);
  await fixture.host.destroy(row.id);
  expect(await state()).toBe("gone, shown 404");
});

test("paused sandboxes and snapshots stay, also if nothing runs any more", async () => {
  await fixture.restart();
  const snapshot = (await fixture.call("POST", `/sandboxes/${row.id}/snapshots`, {})).body.snapshotID;
  await fixture.call("POST", `/sandboxes/${row.id}/pause`);
  const other = await fixture.create();
  await fixture.control.close();
  await fixture.host.destroy(other);
  await fixture.restart();
  await fixture.control.settled();
  expect(fixture.host.checkpoints).toHaveLength(2);
  expect((await fixture.call("GET", `/sandboxes/${other}`)).status).toBe(404);
  expect((await fixture.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect((await fixture.call("POST", "/sandboxes", { templateID: snapshot })).status).toBe(201);
});

test("a paused sandbox without its checkpoint is reported, cannot be resumed, and can be deleted", async () => {
  await fixture.restart();
  await fixture.call("POST", `/sandboxes/${row.id}/pause`);
  const [checkpoint = ""] = fixture.host.checkpoints;
  await fixture.host.removeCheckpoint(checkpoint);
  await fixture.restart();
  expect(
    fixture.logLines.filter((line) => line.includes("is not on this machine") && line.includes(row.id)),
  ).toHaveLength(1);
  expect((await fixture.call("GET", `/sandboxes/${row.id}`)).body.state).toBe("paused");
  const reply = await fixture.call("POST", `/v2/sandboxes/${row.id}/connect`);
  expect(reply.status).toBe(422);
  const reason = `sandbox "${row.id}" cannot be resumed: there is no checkpoint "${checkpoint}" on this machine. It stays`;
  expect(reply.body.message).toStartWith(reason);
  expect((await fixture.call("GET", `/sandboxes/${row.id}`)).body.state).toBe("paused");
  expect((await fixture.call("DELETE", `/sandboxes/${row.id}`)).status).toBe(204);
  expect((await fixture.call("GET", `/sandboxes/${row.id}`)).status).toBe(404);
});

function fail(): never {
  throw new Error("no row");
}
