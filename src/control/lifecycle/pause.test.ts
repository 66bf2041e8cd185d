/** Pause, and the state of a paused sandbox. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let id: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({ timeout: 60, secure: true, metadata: { a: "b" } });
  await fixture.advance(10_000);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const pause = (body?: unknown) => fixture.call("POST", `/sandboxes/${id}/pause`, body);
const read = async () => (await fixture.call("GET", `/sandboxes/${id}`)).body;

describe("pause", () => {
  test("204, then nothing of the sandbox runs and it reads as paused", async () => {
    const before = await read();
    expect((await pause()).status).toBe(204);
    expect(fixture.host.running).toEqual([]);
    expect(fixture.host.checkpoints).toHaveLength(1);
    expect(await read()).toEqual({ ...before, state: "paused", endAt: new Date(NOW + 10_000).toISOString() });
    await fixture.advance(3_600_000);
    expect((await read()).state).toBe("paused");
    expect(fixture.eventsOf(id)).toEqual(["created", "paused"]);
  });

  test.each([
    [undefined, true],
    [{}, true],
    [{ memory: null }, true],
    [{ memory: true }, true],
    [{ memory: false }, false],
  ])("with %j keeps memory: %p", async (body, memory) => {
    const requests: boolean[] = [];
    fixture.host.beforePause = async (_id, _name, options) => void requests.push(options.memory);
    expect((await pause(body)).status).toBe(204);
    expect(requests).toEqual([memory]);
  });

  test("of a paused sandbox is 409, of an unknown one 404, of an invalid id 400", async () => {
    await pause();
    expect((await pause()).status).toBe(409);
    expect((await fixture.call("POST", "/sandboxes/i00000000000000000000/pause")).status).toBe(404);
    expect((await pause({ memory: "yes" })).status).toBe(400);
  });

  test("puts the sandbox into lists of paused ones, not of running ones", async () => {
    const other = await fixture.create({ timeout: 60 });
    await pause();
    const ids = async (query: string) =>
      (await fixture.call("GET", `/v2/sandboxes${query}`)).body.map(({ sandboxID, state }) => `${state} ${sandboxID}`);
    expect(await ids("")).toEqual([`running ${other}`, `paused ${id}`]);
    expect(await ids("?state=paused")).toEqual([`paused ${id}`]);
    expect(await ids("?state=running")).toEqual([`running ${other}`]);
    expect(await ids("?state=paused&metadata=a%3Db")).toEqual([`paused ${id}`]);
    expect((await fixture.call("GET", "/sandboxes")).body.map(({ sandboxID }) => sandboxID)).toEqual([other]);
  });

  test("in progress: readers see it as paused, and the edge finds no route", async () => {
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    expect((await read()).state).toBe("paused");
    expect((await fixture.call("GET", "/v2/sandboxes?state=paused")).body).toHaveLength(1);
    expect(fixture.find(id)).toBeUndefined();
    finish();
    expect((await pausing).status).toBe(204);
  });

  test.each([
    ["pause", {}, 409],
    ["timeout", { timeout: 5 }, 404],
    ["refreshes", {}, 404],
    ["snapshots", {}, 404],
    ["fork", {}, 409],
  ])("in progress: /%s waits, and afterwards it is %p", async (path, body, status) => {
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    const waiting = fixture.call("POST", `/sandboxes/${id}/${path}`, body);
    await fixture.until(() => fixture.clock.timers === 2);
    finish();
    expect([(await pausing).status, (await waiting).status]).toEqual([204, status]);
    const reply = await fixture.call("POST", `/sandboxes/${id}/${path}`, body);
    expect([reply.status, reply.body.message]).toEqual([status, expect.stringMatching(/is (already )?paused/)]);
  });

  test("that waited for a failed pause is tried", async () => {
    const { begun, finish } = fixture.hold("beforePause", new Fault(422, "cannot be kept"));
    const first = pause();
    await begun;
    const second = pause();
    await fixture.until(() => fixture.clock.timers === 2);
    fixture.host.beforePause = async () => undefined;
    finish();
    expect([(await first).status, (await second).status]).toEqual([422, 204]);
  });

  test("of a sandbox that stays in transition for a minute is 503, not 409", async () => {
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
    await begun;
    const waiting = pause();
    await fixture.until(() => fixture.clock.timers === 2);
    await fixture.clock.advance(60_000, async () => undefined);
    const reply = await waiting;
    expect([reply.status, reply.body.message]).toEqual([503, expect.stringContaining("was not paused")]);
    finish();
    await making;
  });

  test("that fails returns the reason, and the sandbox runs on to its end", async () => {
    fixture.host.beforePause = async () => {
      throw new Fault(422, 'process 7 "ring" holds an io_uring, which cannot be kept; end it first');
    };
    const reply = await pause();
    expect([reply.status, reply.body.message]).toEqual([422, expect.stringContaining("io_uring")]);
    expect(fixture.host.checkpoints).toEqual([]);
    expect((await read()).state).toBe("running");
    expect(await fixture.endOf(id)).toBe(60);
    expect(fixture.find(id)).toBeDefined();
    await fixture.advance(50_000);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test.each([
    [507, 507],
    [503, 503],
    [500, 500],
  ])("that the host answers with %p is a %p, and tool output stays in the log", async (status, shown) => {
    fixture.host.beforePause = async () => {
      throw status === 500 ? new Error("criu: /proc/1/mem") : new Fault(status, "no room for it");
    };
    const reply = await pause();
    expect(reply.status).toBe(shown);
    expect(reply.body.message).not.toContain("criu");
    expect((await read()).state).toBe("running");
  });

  test("that fails after the sandbox's end leaves the sandbox to the expiry", async () => {
    fixture.host.beforePause = async () => {
      await fixture.clock.advance(60_000, async () => undefined);
      throw new Fault(422, "cannot be kept");
    };
    expect((await pause()).status).toBe(422);
    await fixture.advance(0);
    expect(fixture.host.destroyed).toEqual([id]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("of a sandbox that dies meanwhile is 404, and it is gone", async () => {
    fixture.host.beforePause = async () => fixture.host.lose(id);
    expect((await pause()).status).toBe(404);
    await fixture.control.settled();
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("many at once: the host pauses once", async () => {
    const statuses = (await Promise.all(Array.from({ length: 10 }, () => pause()))).map(({ status }) => status);
    expect(statuses.sort()).toEqual([204, ...Array(9).fill(409)]);
    expect(fixture.host.checkpoints).toHaveLength(1);
    expect(fixture.host.collisions).toEqual([]);
  });

  test("closes the route before the host is called, however late the host reports it", async () => {
    const tell = fixture.host.listener;
    const late: Parameters<typeof tell>[0][] = [];
    fixture.host.listener = (event) => void late.push(event);
    const first = fixture.find(id);
    fixture.host.beforePause = async () => expect(fixture.find(id)).toBeUndefined();
    expect((await pause()).status).toBe(204);
    expect([fixture.find(id), first?.isOver]).toEqual([undefined, true]);
    for (const event of late) tell(event);
    expect(late.map(({ kind }) => kind)).toEqual(["unreachable"]);
    expect(fixture.find(id)).toBeUndefined();
  });

  test("ends the edge's connections when it succeeds, not when it fails", async () => {
    const first = fixture.find(id);
    fixture.host.beforePause = async () => {
      throw new Fault(422, "cannot be kept");
    };
    await pause();
    expect(first?.isOver).toBe(false);
    fixture.host.beforePause = async () => expect(first?.isOver).toBe(false);
    await pause();
    expect(first?.isOver).toBe(true);
  });

  test("is recorded however often the store fails", async () => {
    const { finishPause } = fixture.store.sandboxes;
    let failures = 2;
    fixture.store.sandboxes.finishPause = (run) =>
      failures-- > 0 ? Promise.reject(new Error("database is locked")) : finishPause(run);
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    finish();
    await until("the store has failed twice and is called once more", async () => {
      await fixture.clock.advance(250, async () => undefined);
      return failures < 0;
    });
    expect((await pausing).status).toBe(204);
    expect((await read()).state).toBe("paused");
  });

  test("by another team is 404", async () => {
    const stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
    for (const path of ["pause", "resume", "fork", "snapshots"]) {
      expect((await fixture.call("POST", `/sandboxes/${id}/${path}`, {}, stranger)).status).toBe(404);
    }
    expect((await read()).state).toBe("running");
  });
});

describe("kill", () => {
  test("of a paused sandbox removes its checkpoint", async () => {
    await pause();
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
    expect([fixture.host.running, fixture.host.checkpoints]).toEqual([[], []]);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.eventsOf(id)).toEqual(["created", "paused", "killed"]);
  });

  test.each([true, false])("during a pause wins, whether the pause succeeds (%p) or not", async (succeeds) => {
    const { begun, finish } = fixture.hold("beforePause", succeeds ? undefined : new Fault(422, "cannot be kept"));
    const pausing = pause();
    await begun;
    const killing = fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.killWanted(id);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
    expect((await fixture.call("POST", `/v2/sandboxes/${id}/connect`)).status).toBe(409);
    expect((await fixture.call("POST", `/sandboxes/${id}/resume`)).status).toBe(404);
    finish();
    expect((await killing).status).toBe(204);
    expect((await pausing).status).toBe(succeeds ? 404 : 422);
    expect([fixture.host.running, fixture.host.checkpoints, fixture.host.collisions]).toEqual([[], [], []]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.eventsOf(id)).toEqual(["created", "killed"]);
  });

  test("during a resume wins, too", async () => {
    await pause();
    const { begun, finish } = fixture.hold("beforeResume");
    const resuming = fixture.call("POST", `/sandboxes/${id}/resume`);
    await begun;
    const killing = fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.killWanted(id);
    finish();
    expect((await killing).status).toBe(204);
    expect((await resuming).status).toBe(409);
    expect([fixture.host.running, fixture.host.checkpoints, fixture.host.collisions]).toEqual([[], [], []]);
  });

  test("does not wait forever for a hanging pause", async () => {
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    const killing = fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.until(() => fixture.clock.timers > 1);
    await fixture.clock.advance(60_000, async () => undefined);
    // Not 204: the sandbox to be killed still runs.
    expect((await killing).status).toBe(503);
    finish();
    await pausing;
    await fixture.control.settled();
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("retries the removal of a checkpoint before it removes the row", async () => {
    await pause();
    let failures = 1;
    fixture.host.beforeRemoveCheckpoint = async () => {
      if (failures-- > 0) throw new Error("busy");
    };
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(500);
    await fixture.advance(1_000);
    expect(fixture.host.checkpoints).toEqual([]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });
});
