/**
 * Sandboxes that do not end on request, because their disk does not answer and their writers block in the kernel.
 * Guards against a server that waits once per tree of cgroups, reports the end while a process lives, and gives its
 * slot and disk away.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { SandboxRecord } from "../../../src/sandbox/sandbox-record.ts";
import { freezerOf, processesBelow } from "../../../src/system/cgroup/freezer.ts";
import { NOTHING, settledCensus } from "../../support/census.ts";
import { recordOf, startPython } from "../../support/inside.ts";
import { MachineOfFile, request } from "../../support/machine-of-file.ts";
import { until } from "../../support/until.ts";
import { FrozenDisk } from "./frozen-disk.ts";

/** Long enough for a sandbox that does end, on a busy machine. */
const END_WITHIN_MS = 4_000;
const STUCK = 3;
const WRITES = `
import time
while True:
    open("/written", "w").write("x")
    time.sleep(0.01)
`;

const here = new MachineOfFile("unended", { endWithinMs: END_WITHIN_MS });

/** Sandboxes with a process that cannot be ended until `held` is disposed of. */
function stuckSandboxes(held: AsyncDisposableStack): Promise<SandboxRecord[]> {
  const stuck = Array.from({ length: STUCK }, async () => {
    const { id } = await here.machine.create(request);
    const record = recordOf(here.data, id);
    await startPython(here.machine, id, WRITES);
    held.use(await FrozenDisk.freeze(here.machine.parts.disks.imageOf(record.disk)));
    const processes = () => processesBelow(freezerOf(record.cgroup));
    await until("something stands in the kernel", async () => (await processes()).some(isBlockedInKernel));
    return record;
  });
  return Promise.all(stuck);
}

function isBlockedInKernel(pid: number): boolean {
  try {
    return /\) D /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

async function remainsOf({ id, cgroup, disk }: SandboxRecord): Promise<unknown> {
  const folder = freezerOf(cgroup);
  return {
    processes: existsSync(folder) && (await processesBelow(folder)).length > 0,
    disk: existsSync(here.machine.parts.disks.imageOf(disk)),
    record: readdirSync(here.data.sandboxesFolder).includes(id),
    endpoint: here.machine.addressOf(id),
  };
}

const ALL_BUT_ENDPOINT = { processes: true, disk: true, record: true, endpoint: undefined };

describe("a sandbox that cannot be ended", () => {
  test("gets 503 for its kill, keeps its resources, delays no other, and is removed when it ends", async () => {
    await using held = new AsyncDisposableStack();
    const stuck = await stuckSandboxes(held);
    for (const attempt of ["first", "second"]) {
      const ends = stuck.map(({ id }) => here.machine.destroy(id).then(() => "gone", String));
      for (const output of await Promise.all(ends))
        expect(`${attempt}: ${output}`).toContain("a process in it has not ended yet");
    }
    for (const record of stuck) expect(await remainsOf(record)).toEqual(ALL_BUT_ENDPOINT);
    const taken = new Set(stuck.map(({ slot }) => slot));
    await here.withSandbox(async (id) => expect(taken).not.toContain(recordOf(here.data, id).slot));
    await held.disposeAsync();
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });

  test("delays no start of a server, keeps its resources, and is removed when it ends", async () => {
    await using held = new AsyncDisposableStack();
    const stuck = await stuckSandboxes(held);
    const plain = await here.machine.create(request);
    const { disk: plainDisk } = recordOf(here.data, plain.id);
    await here.machine.close();
    await here.open();
    expect(await here.machine.adopt({ sandboxes: [], checkpoints: [] })).toEqual({ sandboxes: [], checkpoints: [] });
    for (const record of stuck) expect(await remainsOf(record)).toEqual(ALL_BUT_ENDPOINT);
    expect(existsSync(here.machine.parts.disks.imageOf(plainDisk))).toBe(false);
    const taken = new Set(stuck.map(({ slot }) => slot));
    await here.withSandbox(async (id) => expect(taken).not.toContain(recordOf(here.data, id).slot));
    await held.disposeAsync();
    expect(await settledCensus(here.dataFolder, NOTHING)).toEqual(NOTHING);
  });
});
