/** Sandboxes of templates with a start command, whose started processes can or cannot be restored. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { CreateSandbox, PrepareStart } from "../../../contract/internal/host.ts";
import type { Build } from "../../../store/builds.ts";
import { ControlFixture, NOW } from "../../testing/control-fixture.ts";
import { storeStarted } from "../../testing/stored-templates.ts";
import { START_REPAIR_RETRY_MS } from "./start-repair.ts";

const CREATES = 1000;

let fixture: ControlFixture;
let build: Build;
let created: CreateSandbox[];
let prepared: PrepareStart[];
beforeEach(async () => {
  fixture = await ControlFixture.open();
  build = await storeStarted(fixture, "served", "c1");
  created = [];
  prepared = [];
  fixture.host.beforeCreate = async (request) => void created.push(request);
  fixture.host.beforePrepareStart = async (request) => void prepared.push(request);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const create = () => fixture.create({ templateID: "served", envVars: { B: "c" } });
const current = async () => (await fixture.store.builds.byId(build.id))?.checkpoint;
const logged = (words: string) => fixture.logLines.filter((line) => line.includes(words));

/** All checkpoints of before do not fit any more. */
function outdate(): void {
  fixture.host.mismatchOf = ({ checkpoint }) => (checkpoint === "c1" ? "another kernel" : undefined);
}

test("a create has the checkpoint, and the start command for a mismatch", async () => {
  await create();
  await fixture.control.settled();
  expect(created).toMatchObject([{ checkpoint: "c1", start: build.start, envVars: { A: "b", B: "c" } }]);
  expect(prepared).toEqual([]);
});

test("many creates with a mismatch start one repair, with one log line", async () => {
  outdate();
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  fixture.host.beforePrepareStart = async (request) => {
    prepared.push(request);
    begun.resolve();
    await go.promise;
  };
  await Promise.all(Array.from({ length: CREATES }, create));
  await begun.promise;
  expect((await fixture.store.builds.byId(build.id))?.status).toBe("ready");
  go.resolve();
  await fixture.control.settled();
  const { name, ...request } = prepared[0] ?? { name: "" };
  expect(prepared).toHaveLength(1);
  expect(request).toEqual({ kind: created[0]?.kind, envVars: { A: "b" }, start: build.start } as typeof request);
  expect(logged("cannot be restored")).toEqual([expect.stringContaining("another kernel")]);
  expect(await current()).toBe(name);
  expect(fixture.host.checkpoints).toEqual([name]);
  await create();
  expect(created.at(-1)?.checkpoint).toBe(name);
  await fixture.control.settled();
  expect(prepared).toHaveLength(1);
});

test("a create that began before a repair and ends after it starts no other", async () => {
  outdate();
  const requested = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  fixture.host.beforeCreate = () => {
    requested.resolve();
    return late.promise;
  };
  const waiting = create();
  await requested.promise;
  fixture.host.beforeCreate = async () => undefined;
  await create();
  await fixture.control.settled();
  expect(prepared).toHaveLength(1);
  late.resolve();
  await waiting;
  await fixture.control.settled();
  expect(prepared).toHaveLength(1);
  expect(logged("cannot be restored")).toHaveLength(1);
});

test("a failed repair is retried after a while, an impossible one is not", async () => {
  outdate();
  let failure = new Fault(503, "no room");
  fixture.host.beforePrepareStart = async (request) => {
    prepared.push(request);
    throw failure;
  };
  const createAndSettle = async () => {
    await create();
    await fixture.control.settled();
    return prepared.length;
  };
  expect([await createAndSettle(), await createAndSettle()]).toEqual([1, 1]);
  await fixture.advance(START_REPAIR_RETRY_MS);
  failure = new Fault(422, "it has io_uring");
  expect([await createAndSettle(), await createAndSettle()]).toEqual([2, 2]);
  await fixture.advance(10 * START_REPAIR_RETRY_MS);
  expect(await createAndSettle()).toBe(2);
  expect(logged("could not be checkpointed again")).toHaveLength(2);
  expect(await current()).toBe("c1");
});

test("a build without a checkpoint runs its command in each sandbox, and gets a checkpoint", async () => {
  const unkept = await storeStarted(fixture, "unkept", null);
  await fixture.create({ templateID: "unkept" });
  expect(created.at(-1)).toMatchObject({ start: unkept.start });
  expect(created.at(-1)?.checkpoint).toBeUndefined();
  await fixture.control.settled();
  expect((await fixture.store.builds.byId(unkept.id))?.checkpoint).toBe(prepared[0]?.name ?? "");
});

test("a repair of a deleted template leaves nothing", async () => {
  outdate();
  const made = Promise.withResolvers<string>();
  fixture.host.beforePrepareStart = async () => {
    await fixture.call("DELETE", `/sandboxes/${await made.promise}`);
    expect((await fixture.call("DELETE", "/templates/served")).status).toBe(204);
  };
  made.resolve(await create());
  await fixture.control.settled();
  expect(fixture.host.checkpoints).toEqual([]);
});

test("a checkpoint shared by two builds stays when one is removed", async () => {
  const other = await storeStarted(fixture, "other", "c1");
  expect((await fixture.call("DELETE", "/templates/served")).status).toBe(204);
  await fixture.control.settled();
  expect(fixture.host.checkpoints).toEqual(["c1"]);
  expect(await fixture.call("DELETE", `/templates/${other.templateId}`)).toMatchObject({ status: 204 });
  await fixture.control.settled();
  expect(fixture.host.checkpoints).toEqual([]);
});

test("a stopping server does not wait for a repair, and the next one starts it again", async () => {
  outdate();
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  fixture.host.beforePrepareStart = () => {
    begun.resolve();
    return go.promise;
  };
  await create();
  await begun.promise;
  await fixture.restart();
  go.resolve();
  fixture.host.beforePrepareStart = async (request) => void prepared.push(request);
  await create();
  await fixture.control.settled();
  expect(await current()).toBe(prepared[0]?.name ?? "");
  await fixture.restart();
  expect(fixture.host.checkpoints).toEqual([prepared[0]?.name ?? ""]);
});

test("ready sandboxes start from the new checkpoint", async () => {
  await fixture.store.templates.setKeptReady(build.templateId, 3);
  await fixture.restart();
  await fixture.control.settled();
  const kept = () => fixture.host.kept.filter(({ kind }) => kind.templateId === build.templateId);
  expect(kept()).toMatchObject([{ count: 3, checkpoint: "c1" }]);
  outdate();
  await create();
  await fixture.control.settled();
  expect(kept()).toMatchObject([{ count: 3, checkpoint: prepared[0]?.name }]);
  expect((await fixture.store.builds.byId(build.id))?.updatedAt).toBe(NOW);
});
