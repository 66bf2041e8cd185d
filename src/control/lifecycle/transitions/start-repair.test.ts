/** Sandboxes of templates with a start command, whose started processes can or cannot be restored. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { CreateSandbox, PrepareStart } from "../../../contract/internal/host.ts";
import type { Build } from "../../../store/builds.ts";
import { ControlFixture, NOW } from "../../testing/control-fixture.ts";
import { storeStarted } from "../../testing/stored-templates.ts";
import { START_REPAIR_RETRY_MS } from "./start-repair.ts";

const CREATES = 1000;

let f: ControlFixture;
let build: Build;
let created: CreateSandbox[];
let prepared: PrepareStart[];
beforeEach(async () => {
  f = await ControlFixture.open();
  build = await storeStarted(f, "served", "c1");
  created = [];
  prepared = [];
  f.host.beforeCreate = async (request) => void created.push(request);
  f.host.beforePrepareStart = async (request) => void prepared.push(request);
});
afterEach(() => f[Symbol.asyncDispose]());

const create = () => f.create({ templateID: "served", envVars: { B: "c" } });
const current = async () => (await f.store.builds.byId(build.id))?.checkpoint;
const logged = (words: string) => f.logLines.filter((line) => line.includes(words));

/** All checkpoints of before do not fit any more. */
function outdate(): void {
  f.host.mismatchOf = ({ checkpoint }) => (checkpoint === "c1" ? "another kernel" : undefined);
}

test("a create has the checkpoint, and the start command for a mismatch", async () => {
  await create();
  await f.control.settled();
  expect(created).toMatchObject([{ checkpoint: "c1", start: build.start, envVars: { A: "b", B: "c" } }]);
  expect(prepared).toEqual([]);
});

test("many creates with a mismatch start one repair, with one log line", async () => {
  outdate();
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  f.host.beforePrepareStart = async (request) => {
    prepared.push(request);
    begun.resolve();
    await go.promise;
  };
  await Promise.all(Array.from({ length: CREATES }, create));
  await begun.promise;
  expect((await f.store.builds.byId(build.id))?.status).toBe("ready");
  go.resolve();
  await f.control.settled();
  const { name, ...request } = prepared[0] ?? { name: "" };
  expect(prepared).toHaveLength(1);
  expect(request).toEqual({ kind: created[0]?.kind, envVars: { A: "b" }, start: build.start } as typeof request);
  expect(logged("cannot be restored")).toEqual([expect.stringContaining("another kernel")]);
  expect(await current()).toBe(name);
  expect(f.host.checkpoints).toEqual([name]);
  await create();
  expect(created.at(-1)?.checkpoint).toBe(name);
  await f.control.settled();
  expect(prepared).toHaveLength(1);
});

test("a create that began before a repair and ends after it starts no other", async () => {
  outdate();
  const requested = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  f.host.beforeCreate = () => {
    requested.resolve();
    return late.promise;
  };
  const waiting = create();
  await requested.promise;
  f.host.beforeCreate = async () => undefined;
  await create();
  await f.control.settled();
  expect(prepared).toHaveLength(1);
  late.resolve();
  await waiting;
  await f.control.settled();
  expect(prepared).toHaveLength(1);
  expect(logged("cannot be restored")).toHaveLength(1);
});

test("a failed repair is retried after a while, an impossible one is not", async () => {
  outdate();
  let failure = new Fault(503, "no room");
  f.host.beforePrepareStart = async (request) => {
    prepared.push(request);
    throw failure;
  };
  const createAndSettle = async () => {
    await create();
    await f.control.settled();
    return prepared.length;
  };
  expect([await createAndSettle(), await createAndSettle()]).toEqual([1, 1]);
  await f.advance(START_REPAIR_RETRY_MS);
  failure = new Fault(422, "it has io_uring");
  expect([await createAndSettle(), await createAndSettle()]).toEqual([2, 2]);
  await f.advance(10 * START_REPAIR_RETRY_MS);
  expect(await createAndSettle()).toBe(2);
  expect(logged("could not be checkpointed again")).toHaveLength(2);
  expect(await current()).toBe("c1");
});

test("a build without a checkpoint runs its command in each sandbox, and gets a checkpoint", async () => {
  const unkept = await storeStarted(f, "unkept", null);
  await f.create({ templateID: "unkept" });
  expect(created.at(-1)).toMatchObject({ start: unkept.start });
  expect(created.at(-1)?.checkpoint).toBeUndefined();
  await f.control.settled();
  expect((await f.store.builds.byId(unkept.id))?.checkpoint).toBe(prepared[0]?.name ?? "");
});

test("a repair of a deleted template leaves nothing", async () => {
  outdate();
  const made = Promise.withResolvers<string>();
  f.host.beforePrepareStart = async () => {
    await f.call("DELETE", `/sandboxes/${await made.promise}`);
    expect((await f.call("DELETE", "/templates/served")).status).toBe(204);
  };
  made.resolve(await create());
  await f.control.settled();
  expect(f.host.checkpoints).toEqual([]);
});

test("a checkpoint shared by two builds stays when one is removed", async () => {
  const other = await storeStarted(f, "other", "c1");
  expect((await f.call("DELETE", "/templates/served")).status).toBe(204);
  await f.control.settled();
  expect(f.host.checkpoints).toEqual(["c1"]);
  expect(await f.call("DELETE", `/templates/${other.templateId}`)).toMatchObject({ status: 204 });
  await f.control.settled();
  expect(f.host.checkpoints).toEqual([]);
});

test("a stopping server does not wait for a repair, and the next one starts it again", async () => {
  outdate();
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  f.host.beforePrepareStart = () => {
    begun.resolve();
    return go.promise;
  };
  await create();
  await begun.promise;
  await f.restart();
  go.resolve();
  f.host.beforePrepareStart = async (request) => void prepared.push(request);
  await create();
  await f.control.settled();
  expect(await current()).toBe(prepared[0]?.name ?? "");
  await f.restart();
  expect(f.host.checkpoints).toEqual([prepared[0]?.name ?? ""]);
});

test("ready sandboxes start from the new checkpoint", async () => {
  await f.store.templates.setKeptReady(build.templateId, 3);
  await f.restart();
  await f.control.settled();
  const kept = () => f.host.kept.filter(({ kind }) => kind.templateId === build.templateId);
  expect(kept()).toMatchObject([{ count: 3, checkpoint: "c1" }]);
  outdate();
  await create();
  await f.control.settled();
  expect(kept()).toMatchObject([{ count: 3, checkpoint: prepared[0]?.name }]);
  expect((await f.store.builds.byId(build.id))?.updatedAt).toBe(NOW);
});
