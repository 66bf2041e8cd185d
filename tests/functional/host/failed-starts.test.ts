/**
 * Creates whose sandbox dies during the start, as on an overloaded machine: the caller gets another sandbox and does
 * not notice.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "../../../src/host/machine.ts";
import { isAlive, readRecord } from "../../../src/sandbox/sandbox-record.ts";
import type { DataFolder } from "../../../src/system/data-folder.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { recordOf, shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { readySandbox } from "../../support/ready-sandbox.ts";
import { until } from "../../support/until.ts";

/** How often a moment is looked for that a busy machine lets slip. */
const TRIES = 20;

/**
 * Kills the first process of the next `count` sandboxes, each as soon as it starts, until `isOver`; returns their ids.
 */
async function killStarting(data: DataFolder, count: number, isOver: () => boolean): Promise<string[]> {
  const seen = new Set(readdirSync(data.sandboxesFolder));
  const killed: string[] = [];
  while (killed.length < count && !isOver()) {
    for (const id of readdirSync(data.sandboxesFolder).filter((name) => !seen.has(name))) {
      const record = readRecord(join(data.sandboxesFolder, id));
      if (record === undefined || killed.length === count) continue;
      process.kill(record.pid, "SIGKILL");
      seen.add(id);
      killed.push(id);
    }
    await Bun.sleep(1);
  }
  return killed;
}

interface InterruptedCreate {
  killed: string[];
  id?: string;
  fault?: unknown;
}

/** The outcome of a create whose first `count` sandboxes are killed before they are handed out. */
async function createWithKills({ machine, data }: MachineOfFile, count: number): Promise<InterruptedCreate> {
  for (let tries = 0; tries < TRIES; tries++) {
    let isOver = false;
    const killing = killStarting(data, count, () => isOver);
    const outcome = await machine
      .create(request)
      .catch((fault: unknown) => ({ fault }))
      .finally(() => {
        isOver = true;
      });
    const killed = await killing;
    if ("fault" in outcome) return { killed, ...outcome };
    if (killed.length === count && !killed.includes(outcome.id)) return { killed, id: outcome.id };
    // It was handed out before it was killed, if it was.
    await machine.destroy(outcome.id).catch(() => undefined);
  }
  throw new Error(`none was killed in time, ${TRIES} times`);
}

async function expectWorking(machine: Machine, data: DataFolder, id: string): Promise<void> {
  expect(machine.addressOf(id)).toBeDefined();
  expect(await shell(data, id, "echo works")).toBe("works");
}

describe("a sandbox that dies while it starts", () => {
  const here = new MachineOfFile("failed-starts");

  test("is replaced by another, and nothing is left of it", async () => {
    const { id = "", killed, fault } = await createWithKills(here, 1);
    expect([killed.length, fault]).toEqual([1, undefined]);
    await expectWorking(here.machine, here.data, id);
    expect(readdirSync(here.data.sandboxesFolder)).toEqual([id]);
    await here.machine.destroy(id);
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("fails the create if its replacement dies too: there is no third attempt", async () => {
    const { killed, id, fault } = await createWithKills(here, 2);
    expect([killed.length, id]).toEqual([2, undefined]);
    expect(fault).toMatchObject({ status: 500 });
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("is not handed over if it ended while it was ready", async () => {
    const ready = await readySandbox(here);
    const record = recordOf(here.data, ready);
    process.kill(record.pid, "SIGKILL");
    await until("it has ended", () => !isAlive(record));
    const { id } = await here.machine.create({ ...request, egress: "open" });
    expect(id).not.toBe(ready);
    await expectWorking(here.machine, here.data, id);
    await here.machine.keepReady([]);
    await here.machine.destroy(id);
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });
});
