/** Memory of sandboxes that share it, and how many fit on the machine. */
import { Sandbox } from "e2b";
import { memoryLeft } from "../../../src/system/cgroup/memory-left.ts";
import type { Context } from "../../context.ts";
import { summary } from "../../figures/samples.ts";
import type { Outcome, Row } from "../../row.ts";
import { frameMs, Interpreters } from "../../sandboxes/interpreters.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";
import { ksmdMs, memoryOfAll, sharingServer, untilMerged } from "./sharing-server.ts";

const LIFE_MS = 3_600_000;
/** From the last create to the look at the memory. */
const MERGING_MS = 120_000;
const PYTHON = "python3 -c 'import asyncio, json, ssl, sqlite3'";
const BASES = 100;
const BASES_READY = 2;
const BASE = { maxMib: 5, aimMib: 3 };
const INTERPRETERS = 20;
const INTERPRETER = { maxMib: 100, aimMib: 40, maxKsmdS: 2, aimKsmdS: 1 };
const MANY = 20;
const MANY_LONG = 200;
/** With less free memory, the next interpreter waits until ksmd has merged more. */
const FREE_PART_MIN = 0.15;
const FREE_WAIT_MS = 1_000;
/** Many interpreters are made faster than ksmd merges them at its usual share of a processor. */
export const MANY_CPU = { SANDLOT_SHARED_MEMORY_CPU: "100" };
const QUIET_CELLS = 5;
const PAUSE_MS = 2_000;

export const sharedBase: Row = {
  name: "shared-base-100",
  what: `memory of the 2nd to the 100th sandbox that ran Python, with shared memory: at most ${BASE.maxMib} MiB (aim ${BASE.aimMib} MiB)`,
  async run(given) {
    const server = await sharingServer(given, { ready: BASES_READY });
    if ("notMeasured" in server) return server;
    await using second = server;
    const ids: string[] = [];
    while (ids.length < BASES) {
      await second.context.untilReady();
      const sandbox = await Sandbox.create("base", { ...second.context.sdk, timeoutMs: LIFE_MS });
      await sandbox.commands.run(PYTHON);
      ids.push(sandbox.sandboxId);
    }
    await Bun.sleep(MERGING_MS);
    const { text, median } = memoryText(await memoryOfAll(second.context, ids));
    return { notes: [text], broken: median > BASE.maxMib ? [`${text}, more than ${BASE.maxMib} MiB`] : [] };
  },
};

export const sharedInterpreter: Row = {
  name: "shared-interpreter-20",
  what:
    `memory of the 2nd to the 20th interpreter that ran pandas, with shared memory: at most ${INTERPRETER.maxMib} MiB ` +
    `(aim ${INTERPRETER.aimMib} MiB), for at most ${INTERPRETER.maxKsmdS} s of ksmd each (aim ${INTERPRETER.aimKsmdS} s)`,
  async run(given) {
    const off = await interpretersOn(() => SecondServer.start(given), 0);
    if ("notMeasured" in off) return off;
    const before = ksmdMs();
    const on = await interpretersOn(() => sharingServer(given), MERGING_MS);
    if ("notMeasured" in on) return on;
    const seconds = (ksmdMs() - before) / 1000 / INTERPRETERS;
    const cost = `ksmd took ${seconds.toFixed(2)} s for each`;
    const broken = [
      ...(on.median > INTERPRETER.maxMib ? [`${on.text}, more than ${INTERPRETER.maxMib} MiB`] : []),
      ...(seconds > INTERPRETER.maxKsmdS ? [`${cost}, more than ${INTERPRETER.maxKsmdS} s`] : []),
    ];
    return { notes: [`with sharing ${on.text}; without ${off.text}`, cost], broken };
  },
};

export const manyInterpreters: Row = {
  name: "interpreters-20",
  what: `a pandas cell in each of ${MANY} interpreters that run at once with shared memory (${MANY_LONG} with --long)`,
  beside: { peer: "the same cell while only one runs", ratio: "cost", bounds: { atLeast: 2, aim: 1.2 } },
  run: manyAtOnce,
};

async function manyAtOnce(given: Context): Promise<Outcome> {
  const server = await sharingServer(given, { settings: MANY_CPU });
  if ("notMeasured" in server) return server;
  await using second = server;
  const made = await Interpreters.on(second.context);
  if ("notMeasured" in made) return made;
  await using interpreters = made;
  await interpreters.grow(1);
  const [first] = interpreters.all;
  const quiet: number[] = [];
  while (first !== undefined && quiet.length < QUIET_CELLS) {
    await Bun.sleep(PAUSE_MS);
    quiet.push(await frameMs(first));
  }
  const count = given.long ? MANY_LONG : MANY;
  await interpreters.grow(count, () => untilRoom(second.context));
  await untilMerged(MERGING_MS);
  const cells: number[] = [];
  for (const sandbox of interpreters.all) cells.push(await frameMs(sandbox));
  const limit = 2 * summary(quiet).median;
  const late = cells.filter((ms) => ms > limit).length;
  const { text } = memoryText(await memoryOfAll(second.context, interpreters.ids));
  return {
    pairs: { ours: cells, peer: quiet },
    notes: [`all ${count} answered, ${count - late} within 2 × of the quiet time (${limit.toFixed(0)} ms); ${text}`],
  };
}

async function interpretersOn(
  start: () => Promise<SecondServer | { notMeasured: string }>,
  mergingMs: number,
): Promise<{ text: string; median: number } | { notMeasured: string }> {
  const server = await start();
  if ("notMeasured" in server) return server;
  await using second = server;
  const made = await Interpreters.on(second.context);
  if ("notMeasured" in made) return made;
  await using interpreters = made;
  await interpreters.grow(INTERPRETERS);
  await Bun.sleep(mergingMs);
  return memoryText(await memoryOfAll(second.context, interpreters.ids));
}

export async function untilRoom({ data }: Context): Promise<void> {
  for (;;) {
    const { totalBytes, availableBytes } = memoryLeft(data.cgroup);
    if (availableBytes > totalBytes * FREE_PART_MIN) return;
    await Bun.sleep(FREE_WAIT_MS);
  }
}

function memoryText([first = 0, ...others]: readonly number[]): { text: string; median: number } {
  const { median, p10, p90 } = summary(others);
  const text = `${median.toFixed(1)} MiB [${p10.toFixed(1)}–${p90.toFixed(1)}]; the first ${first.toFixed(1)}`;
  return { text, median };
}
