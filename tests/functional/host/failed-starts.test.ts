/**
 * Creates whose sandbox dies under their hands, as on a machine in need: the caller gets another one and does not
 * notice.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "../../../src/host/machine.ts";
import { readRecord } from "../../../src/host/sandbox/sandbox-record.ts";
import type { DataFolder } from "../../../src/host/system/data-folder.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { shell } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";

const KILLED_WITHIN_MS = 30_000;

/**
 * Kills the first process of the next `count` sandboxes that start, each as soon as there is one; answers which they
 * were.
 */
async function killStarting(data: DataFolder, count: number): Promise<string[]> {
  const seen = new Set(readdirSync(data.sandboxesFolder));
  const killed: string[] = [];
  const deadline = performance.now() + KILLED_WITHIN_MS;
  while (killed.length < count && performance.now() < deadline) {
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

async function expectWorking(machine: Machine, data: DataFolder, id: string): Promise<void> {
  expect(machine.addressOf(id)).toBeDefined();
  expect(await shell(data, id, "echo works")).toBe("works");
}

describe("a sandbox that dies while it starts", () => {
  const here = new MachineOfFile("failed-starts");

  test("is replaced by another, and nothing is left of it", async () => {
    const kills = killStarting(here.data, 1);
    const { id } = await here.machine.create(request);
    const [victim] = await kills;
    expect(victim).toBeDefined();
    expect(victim).not.toBe(id);
    await expectWorking(here.machine, here.data, id);
    expect(readdirSync(here.data.sandboxesFolder)).toEqual([id]);
    await here.machine.destroy(id);
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("is a failure when the next one dies as well: there is no third", async () => {
    const kills = killStarting(here.data, 2);
    await expect(here.machine.create(request)).rejects.toMatchObject({ status: 500 });
    expect(await kills).toHaveLength(2);
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });
});
