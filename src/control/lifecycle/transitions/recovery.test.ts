/** Recovery at start-up of operations that the last run left unfinished. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import type { Sandbox } from "../../../store/sandboxes.ts";
import { ControlFixture } from "../../testing/control-fixture.ts";

let f: ControlFixture;
let row: Sandbox;
beforeEach(async () => {
  f = await ControlFixture.open();
  const id = await f.create({ timeout: 60 });
  row = (await f.store.sandboxes.byId(id)) ?? fail();
  await f.control.close();
});
afterEach(() => f[Symbol.asyncDispose]());

const to = { checkpoint: "half", memory: true, now: 0 };

async function state(): Promise<string> {
  await f.restart();
  await f.control.settled();
  const now = await f.store.sandboxes.byId(row.id);
  const shown = await f.call("GET", `/sandboxes/${row.id}`);
  const reached = f.find(row.id) !== undefined;
  expect(reached).toBe(now?.state === "running");
  expect(now?.checkpoint ?? null).toBe(now?.state === "paused" ? "half" : null);
  return `${now?.state ?? "gone"}, shown ${shown.status === 200 ? shown.body.state : shown.status}`;
}

test("a pause that had not begun: the sandbox runs on to its end", async () => {
  await f.store.sandboxes.beginPause(row, to);
  expect(await state()).toBe("running, shown running");
  await f.advance(60_000);
  expect(f.host.destroyed).toEqual([row.id]);
});

test("a complete but unrecorded pause: paused, and it can be resumed", async () => {
  await f.store.sandboxes.beginPause(row, to);
  await f.host.pause(row.id, "half", { memory: true });
  expect(await state()).toBe("paused, shown paused");
  expect(f.eventsOf(row.id)).toEqual(["created", "paused"]);
  expect((await f.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect(f.host.contentsOf(row.id)).toEqual({ boot: 1, disk: 1 });
});

test("a pause that left sandbox and checkpoint: the sandbox runs on, the checkpoint is removed", async () => {
  await f.store.sandboxes.beginPause(row, to);
  await f.host.snapshot(row.id, "half", { memory: true });
  expect(await state()).toBe("running, shown running");
  expect(f.host.checkpoints).toEqual([]);
});

test("a pause that left neither: the sandbox is gone", async () => {
  await f.store.sandboxes.beginPause(row, to);
  await f.host.destroy(row.id);
  expect(await state()).toBe("gone, shown 404");
});

test("a pause with a kill request: the sandbox and its checkpoint are gone", async () => {
  await f.store.sandboxes.beginPause(row, to);
  await f.host.pause(row.id, "half", { memory: true });
  await f.store.sandboxes.kill(row);
  expect(await state()).toBe("gone, shown 404");
  expect(f.host.checkpoints).toEqual([]);
});

test("an automatic pause is due again at once", async () => {
  await f.restart();
  const id = await f.create({ timeout: 5, autoPause: true });
  await f.control.close();
  await f.clock.advance(60_000, async () => undefined);
  await f.store.sandboxes.takeDue(f.clock.now());
  await f.restart();
  expect((await f.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  await f.advance(0);
  expect((await f.store.sandboxes.byId(id))?.state).toBe("paused");
  expect(f.host.checkpoints).toHaveLength(1);
});

test.each([false, true])("a resume, the sandbox alive or not (%p): paused as it was", async (alive) => {
  await f.store.sandboxes.beginPause(row, to);
  await f.host.pause(row.id, "half", { memory: true });
  await f.store.sandboxes.finishPause(row);
  await f.store.sandboxes.beginResume(row, "run-2");
  if (alive) {
    const kind = { image: "base", templateId: "t", cpuCount: 1, memoryMB: 128, diskSizeMB: 1 };
    const request = { kind: { ...kind, defaultUser: "user", defaultWorkdir: "" }, envVars: {}, accessTokens: [] };
    await f.host.resume({ ...request, id: row.id, checkpoint: "half", memory: true, egress: "open" });
  }
  expect(await state()).toBe("paused, shown paused");
  expect(f.host.running).toEqual([]);
  expect((await f.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect(f.host.contentsOf(row.id)).toEqual({ boot: 1, disk: 1 });
});

test("a snapshot: the sandbox runs on, and the unrecorded checkpoint is removed", async () => {
  await f.store.sandboxes.beginSnapshot(row, 0);
  await f.host.snapshot(row.id, "unrecorded", { memory: true });
  expect(await state()).toBe("running, shown running");
  expect(f.host.checkpoints).toEqual([]);
});

test("a snapshot of a sandbox that died: the sandbox is gone", async () => {
  await f.store.sandboxes.beginSnapshot(row, 0);
  await f.host.destroy(row.id);
  expect(await state()).toBe("gone, shown 404");
});

test("paused sandboxes and snapshots stay, also if nothing runs any more", async () => {
  await f.restart();
  const snapshot = (await f.call("POST", `/sandboxes/${row.id}/snapshots`, {})).body.snapshotID;
  await f.call("POST", `/sandboxes/${row.id}/pause`);
  const other = await f.create();
  await f.control.close();
  await f.host.destroy(other);
  await f.restart();
  await f.control.settled();
  expect(f.host.checkpoints).toHaveLength(2);
  expect((await f.call("GET", `/sandboxes/${other}`)).status).toBe(404);
  expect((await f.call("POST", `/v2/sandboxes/${row.id}/connect`)).status).toBe(201);
  expect((await f.call("POST", "/sandboxes", { templateID: snapshot })).status).toBe(201);
});

test("a paused sandbox without its checkpoint is reported, cannot be resumed, and can be deleted", async () => {
  await f.restart();
  await f.call("POST", `/sandboxes/${row.id}/pause`);
  const [checkpoint = ""] = f.host.checkpoints;
  await f.host.removeCheckpoint(checkpoint);
  await f.restart();
  expect(f.logLines.filter((line) => line.includes("is not on this machine") && line.includes(row.id))).toHaveLength(1);
  expect((await f.call("GET", `/sandboxes/${row.id}`)).body.state).toBe("paused");
  const reply = await f.call("POST", `/v2/sandboxes/${row.id}/connect`);
  expect(reply.status).toBe(422);
  const reason = `sandbox "${row.id}" cannot be resumed: there is no checkpoint "${checkpoint}" on this machine. It stays`;
  expect(reply.body.message).toStartWith(reason);
  expect((await f.call("GET", `/sandboxes/${row.id}`)).body.state).toBe("paused");
  expect((await f.call("DELETE", `/sandboxes/${row.id}`)).status).toBe(204);
  expect((await f.call("GET", `/sandboxes/${row.id}`)).status).toBe(404);
});

function fail(): never {
  throw new Error("no row");
}
