/** Control on a machine that is short of memory. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { MemoryEvent } from "../../contract/internal/host.ts";
import { METRIC_IDLE_MS } from "../activity/metric-samples.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { callsOfTeam } from "../testing/team-calls.ts";
import { RELIEF_AGAIN_MS, RELIEF_PAUSES_AT_ONCE } from "./memory-relief.ts";

let fixture: ControlFixture;
const { create, pause, resume, connect, wake, fork, running, paused } = callsOfTeam(() => fixture);
const MIB = 1024 ** 2;

beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** As the host tells it, and what follows. */
async function memory(state: MemoryEvent["state"]): Promise<void> {
  fixture.host.listener({ kind: "memory", state, availableBytes: 300 * MIB, reserveBytes: 1228 * MIB });
  await fixture.control.settled();
}

const stateOf = async (id: string) => (await fixture.call("GET", `/sandboxes/${id}`)).body.state;
const statesOf = (ids: readonly string[]) => Promise.all(ids.map(stateOf));

describe.each(["short", "exhausted"] as const)("while memory is %s", (state) => {
  test("creates, resumes, connects, wakes and forks are refused with the figures", async () => {
    const [asleep = ""] = await paused(1);
    const [awake = ""] = await running(1);
    fixture.host.beforeSnapshot = async () => {
      throw new Fault(500, "the sandbox was frozen");
    };
    await memory(state);
    const refused = await create();
    expect([refused.status, refused.body.error_code]).toEqual([503, "sandbox_capacity_unavailable"]);
    expect(refused.body.message).toStartWith(
      "Failed to place sandbox: the machine is short of memory: 300 MB are available, less than the reserve of " +
        "1228 MB (SANDLOT_MEMORY_RESERVE)",
    );
    expect([(await resume(asleep)).status, (await connect(asleep)).status]).toEqual([503, 503]);
    expect(await wake(asleep)).toEqual({ refused: "unavailable" });
    expect((await fork(awake, 2)).status).toBe(503);
    expect(await statesOf([asleep, awake])).toEqual(["paused", "running"]);
  });

  test("running sandboxes can be used, paused and killed", async () => {
    const [first = "", second = ""] = await running(2);
    await memory(state);
    expect((await connect(first)).status).toBe(200);
    expect((await pause(first)).status).toBe(204);
    expect((await fixture.call("DELETE", `/sandboxes/${second}`)).status).toBe(204);
  });

  test("creates succeed again when it is enough", async () => {
    await memory(state);
    expect((await create()).status).toBe(503);
    await memory("enough");
    expect((await create()).status).toBe(201);
  });
});

describe("idle sandboxes", () => {
  const LONG = { timeout: 3600, autoPause: true };

  test("with autoPause are paused with a log line and an event, and resume with their memory", async () => {
    const id = await fixture.create({ ...LONG, autoPauseMemory: false });
    await fixture.passBy(2 * METRIC_IDLE_MS);
    await memory("exhausted");
    expect(await stateOf(id)).toBe("paused");
    expect(fixture.events.at(-1)).toMatchObject({ event: "paused", note: "the machine was short of memory" });
    expect(fixture.logLines.join()).toContain("sandbox paused to free memory");
    expect((await fixture.store.sandboxes.byId(id))?.checkpointMemory).toBe(true);
    await memory("enough");
    expect((await resume(id)).status).toBe(201);
  });

  test("keep running while ready sandboxes are still given up", async () => {
    const id = await fixture.create(LONG);
    await fixture.passBy(2 * METRIC_IDLE_MS);
    await memory("short");
    expect(await stateOf(id)).toBe("running");
  });

  test("without autoPause keep running", async () => {
    const id = await fixture.create({ timeout: 3600 });
    await fixture.passBy(2 * METRIC_IDLE_MS);
    await memory("exhausted");
    expect(await stateOf(id)).toBe("running");
  });

  test("are paused a few at a time, the longest idle first, until memory is enough", async () => {
    const ids: string[] = [];
    for (let nth = 0; nth < 2 * RELIEF_PAUSES_AT_ONCE; nth++) {
      ids.push(await fixture.create(LONG));
      await fixture.passBy(6_000);
    }
    await fixture.passBy(2 * METRIC_IDLE_MS);
    await memory("exhausted");
    const half = ids.map((_, nth) => (nth < RELIEF_PAUSES_AT_ONCE ? "paused" : "running"));
    expect(await statesOf(ids)).toEqual(half);
    await memory("enough");
    await fixture.passBy(10_000);
    expect(await statesOf(ids)).toEqual(half);
    await memory("exhausted");
    expect(await statesOf(ids)).toEqual(ids.map(() => "paused"));
  });

  test("do not include sandboxes that use the processor, or have just used it", async () => {
    const [busy, woken, idle] = [await fixture.create(LONG), await fixture.create(LONG), await fixture.create(LONG)];
    let usedByWoken = 0;
    const used = (id: string) => (id === busy ? (fixture.clock.now() - NOW) / 10 : id === woken ? usedByWoken : 0);
    fixture.host.usageOf = (id) => ({ cpuUsedMs: used(id), memUsed: 1, memCache: 2, diskUsed: 3, diskTotal: 4 });
    await fixture.passBy(2 * METRIC_IDLE_MS);
    // After the last sample.
    usedByWoken = 200;
    await memory("exhausted");
    expect(await statesOf([busy, woken, idle])).toEqual(["running", "running", "paused"]);
  });

  test("do not include sandboxes that have just begun to run", async () => {
    const id = await fixture.create(LONG);
    await fixture.passBy(METRIC_IDLE_MS / 2);
    await memory("exhausted");
    expect(await stateOf(id)).toBe("running");
    await fixture.passBy(METRIC_IDLE_MS);
    await memory("exhausted");
    expect(await stateOf(id)).toBe("paused");
  });

  test("that cannot be paused keep running, with a line in their log, and do not hinder others", async () => {
    const [stubborn, other] = [await fixture.create(LONG), await fixture.create(LONG)];
    await fixture.passBy(2 * METRIC_IDLE_MS);
    let tries = 0;
    fixture.host.beforePause = async (id) => {
      if (id !== stubborn) return;
      tries++;
      throw new Fault(422, "a process is being traced");
    };
    await memory("exhausted");
    expect(await statesOf([stubborn, other])).toEqual(["running", "paused"]);
    const warning = fixture.events.find(({ event, sandbox }) => event === "warn" && sandbox.id === stubborn);
    expect(warning?.note).toContain("could not be paused: a process is being traced");
    await fixture.passBy(RELIEF_AGAIN_MS);
    await memory("exhausted");
    expect(tries).toBe(1);
  });
});
