/** Sandboxes that pause at the end of their timeout. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { timed } from "../../base/testing/timed.ts";
import { Fault } from "../../contract/fault.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { lateness } from "../testing/lateness.ts";
import { AUTO_PAUSES_AT_ONCE } from "./transitions/pausing.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const read = async (id: string) => (await fixture.call("GET", `/sandboxes/${id}`)).body;

describe("create", () => {
  test.each([
    [{}, { autoResume: false, onTimeout: "kill" }],
    [{ autoPause: true }, { autoResume: false, onTimeout: "pause" }],
    [
      { autoPause: true, autoPauseMemory: false },
      { autoResume: false, onTimeout: "pause" },
    ],
    [
      { autoPause: true, autoResume: { enabled: true } },
      { autoResume: true, onTimeout: "pause" },
    ],
    [{ autoResume: { enabled: true } }, { autoResume: true, onTimeout: "kill" }],
  ])("%j is shown as %j", async (fields, lifecycle) => {
    expect((await read(await fixture.create(fields))).lifecycle).toEqual(lifecycle as never);
  });

  test.each([
    [{ autoPauseMemory: false }, "without autoPause"],
    [{ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } }, "autoResume"],
  ])("%j is refused", async (fields, words) => {
    const reply = await fixture.call("POST", "/v2/sandboxes", { templateID: "base", ...fields });
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining(words)]);
    expect(fixture.host.running).toEqual([]);
  });
});

describe("at its end", () => {
  test("the sandbox is paused, not before, and stays paused", async () => {
    const id = await fixture.create({ timeout: 30, autoPause: true });
    await fixture.advance(29_999);
    expect((await read(id)).state).toBe("running");
    await fixture.advance(1);
    expect(await read(id)).toMatchObject({ state: "paused", endAt: new Date(NOW + 30_000).toISOString() });
    expect([fixture.host.running, fixture.host.checkpoints.length, fixture.host.destroyed]).toEqual([[], 1, []]);
    await fixture.advance(3_600_000);
    expect((await read(id)).state).toBe("paused");
    expect(fixture.eventsOf(id)).toEqual(["created", "paused"]);
  });

  test("without memory if that was asked for", async () => {
    const requests: boolean[] = [];
    fixture.host.beforePause = async (_id, _name, { memory }) => void requests.push(memory);
    await fixture.create({ timeout: 1, autoPause: true, autoPauseMemory: false });
    await fixture.create({ timeout: 1, autoPause: true });
    await fixture.advance(1_000);
    expect(requests.sort()).toEqual([false, true]);
  });

  test("timeout 0 pauses it at once; setting it to 0 does, too", async () => {
    const id = await fixture.create({ timeout: 0, autoPause: true });
    expect((await read(id)).state).toBe("paused");
    await fixture.advance(0);
    expect(fixture.host.checkpoints).toHaveLength(1);
    expect((await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 10 })).status).toBe(201);
    expect((await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 0 })).status).toBe(204);
    expect((await read(id)).state).toBe("paused");
    await fixture.advance(0);
    expect(fixture.host.running).toEqual([]);
  });

  test("a connect between the end and the change of the row waits and resumes the sandbox", async () => {
    const id = await fixture.create({ timeout: 0, autoPause: true });
    const connecting = fixture.call("POST", `/v2/sandboxes/${id}/connect`);
    await fixture.advance(0);
    expect((await connecting).status).toBe(201);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
  });

  timed("a thousand due sandboxes read as paused at once, and are checkpointed a few at a time", async () => {
    for (let nth = 0; nth < 1_000; nth++) await fixture.create({ timeout: 10, autoPause: true });
    const held = Promise.withResolvers<void>();
    let [together, most] = [0, 0];
    fixture.host.beforePause = async () => {
      most = Math.max(most, ++together);
      await held.promise;
      together--;
    };
    const passed = fixture.advance(10_000);
    const startedAt = performance.now();
    await fixture.until(async () => (await fixture.store.sandboxes.inState("pausing")).length === 1_000);
    const tookMs = performance.now() - startedAt;
    const { body, headers } = await fixture.call("GET", "/v2/sandboxes?state=running,paused&limit=100");
    expect([body.length, headers.get("x-total-running")]).toEqual([100, "0"]);
    expect(new Set(body.map(({ state }) => state))).toEqual(new Set(["paused"]));
    // A pause that a caller waits for goes before the others.
    const last = (await fixture.store.sandboxes.inState("pausing")).at(-1)?.id ?? "";
    const connecting = fixture.call("POST", `/v2/sandboxes/${last}/connect`);
    held.resolve();
    expect((await connecting).status).toBe(201);
    await passed;
    await fixture.control.settled();
    expect(most).toBe(AUTO_PAUSES_AT_ONCE);
    expect(fixture.host.running).toEqual([last]);
    expect(await fixture.store.sandboxes.inState("pausing")).toEqual([]);
    expect((await fixture.store.sandboxes.inState("paused")).length).toBe(999);
    // Checked last, because a retry can only begin when nothing of this try is held any more.
    expect(tookMs).toBeLessThan(100);
  });

  timed("within 100 ms on the real clock", async () => {
    const late = await lateness(fixture, { autoPause: true });
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(100);
  });
});

describe("a pause that fails", () => {
  const cannot = new Fault(422, "process 7 holds an io_uring");

  test("is postponed by five minutes three times, then done without memory; each is logged", async () => {
    const requests: boolean[] = [];
    fixture.host.beforePause = async (_id, _name, { memory }) => {
      requests.push(memory);
      if (memory) throw cannot;
    };
    const id = await fixture.create({ timeout: 60, autoPause: true });
    for (let nth = 0; nth < 3; nth++) {
      await fixture.advance(nth === 0 ? 60_000 : 300_000);
      expect(await read(id)).toMatchObject({
        state: "running",
        endAt: new Date(fixture.clock.now() + 300_000).toISOString(),
      });
      expect(fixture.find(id)).toBeDefined();
    }
    await fixture.advance(300_000);
    expect((await read(id)).state).toBe("paused");
    expect(requests).toEqual([true, true, true, false]);
    expect(fixture.eventsOf(id)).toEqual([
      "created",
      "warn",
      "updated",
      "warn",
      "updated",
      "warn",
      "updated",
      "paused",
    ]);
    expect(fixture.events.find(({ event }) => event === "warn")?.note).toContain("io_uring");
    expect(fixture.events.at(-1)?.note).toContain("memory was not kept");
    expect(fixture.host.checkpoints).toHaveLength(1);
  });

  test("without memory as well is retried, and the sandbox is never lost", async () => {
    fixture.host.beforePause = async () => {
      throw new Fault(507, "the disk is full");
    };
    const id = await fixture.create({ timeout: 60, autoPause: true });
    await fixture.advance(60_000 + 5 * 300_000);
    expect((await read(id)).state).toBe("running");
    fixture.host.beforePause = async () => undefined;
    await fixture.advance(300_000);
    expect((await read(id)).state).toBe("paused");
  });

  test("starts a new count in the next run", async () => {
    let failures = 2;
    fixture.host.beforePause = async () => {
      if (failures-- > 0) throw cannot;
    };
    const id = await fixture.create({ timeout: 60, autoPause: true });
    await fixture.advance(60_000 + 600_000);
    expect((await fixture.call("POST", `/v2/sandboxes/${id}/connect`, { timeout: 60 })).status).toBe(201);
    expect((await fixture.store.sandboxes.byId(id))?.pauseFailures).toBe(0);
  });

  test("starts a new count when a client sets the timeout", async () => {
    fixture.host.beforePause = async () => {
      throw cannot;
    };
    const id = await fixture.create({ timeout: 60, autoPause: true });
    for (const [path, body] of [
      ["timeout", { timeout: 60 }],
      ["refreshes", { duration: 600 }],
    ] as const) {
      await fixture.advance(60_000);
      expect((await fixture.store.sandboxes.byId(id))?.pauseFailures).toBe(1);
      expect((await fixture.call("POST", `/sandboxes/${id}/${path}`, body)).status).toBe(204);
      expect((await fixture.store.sandboxes.byId(id))?.pauseFailures).toBe(0);
    }
  });

  test("never reuses its checkpoint name", async () => {
    const names: string[] = [];
    fixture.host.beforePause = async (_id, name) => {
      names.push(name);
      throw cannot;
    };
    const id = await fixture.create({ timeout: 60, autoPause: true });
    await fixture.advance(60_000);
    await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 60 });
    await fixture.advance(60_000 + 300_000);
    expect(names).toHaveLength(3);
    expect(new Set(names).size).toBe(3);
  });

  test("because the sandbox died ends it", async () => {
    const id = await fixture.create({ timeout: 60, autoPause: true });
    fixture.host.beforePause = async () => fixture.host.lose(id);
    await fixture.advance(60_000);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.eventsOf(id)).toEqual(["created", "killed"]);
  });
});

test("a kill of a sandbox in the pause queue ends it without a pause", async () => {
  const held = Promise.withResolvers<void>();
  const requests: string[] = [];
  fixture.host.beforePause = async (id) => {
    requests.push(id);
    await held.promise;
  };
  const ids: string[] = [];
  for (let nth = 0; nth <= AUTO_PAUSES_AT_ONCE; nth++) ids.push(await fixture.create({ timeout: 1, autoPause: true }));
  const passed = fixture.advance(1_000);
  await fixture.until(() => requests.length === AUTO_PAUSES_AT_ONCE);
  const waiting = ids.find((id) => !requests.includes(id)) ?? "";
  const killing = fixture.call("DELETE", `/sandboxes/${waiting}`);
  await fixture.killWanted(waiting);
  held.resolve();
  expect((await killing).status).toBe(204);
  await passed;
  expect(requests).not.toContain(waiting);
  expect(fixture.host.destroyed).toEqual([waiting]);
});
