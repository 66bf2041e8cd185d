/** Measures the data of the plots with few rounds, and beside a floor where there is one. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Context } from "../context.ts";
import type { MachineFacts } from "../figures/machine-facts.ts";
import { summary, timed } from "../figures/samples.ts";
import { BareCriu } from "../peers/bare-criu.ts";
import { PlainContainer } from "../peers/plain-container.ts";
import { creates, endAll, grow, lists } from "../rows/scale/crowd.ts";
import { MANY_CPU, untilRoom } from "../rows/sharing/sharing-memory.ts";
import { memoryOfAll, sharingServer, untilMerged } from "../rows/sharing/sharing-server.ts";
import { holdMemory } from "../rows/states/pause.ts";
import { build, removeTemplate, smallCommands } from "../sandboxes/bench-build.ts";
import { BenchSandbox, memoryOf } from "../sandboxes/bench-sandbox.ts";
import { createTogether, killAll } from "../sandboxes/creating.ts";
import { Interpreters } from "../sandboxes/interpreters.ts";
import { SecondServer } from "../sandboxes/second-server.ts";
import type { PlotName } from "./plot-names.ts";
import { type Line, type Plot, svgOf } from "./svg.ts";

/** The folder of the plots in the docs. */
const FOLDER = join(import.meta.dir, "../../docs/plots");
const SANDBOXES = [1, 10, 25, 50, 100];
const SANDBOXES_LONG = [1, 10, 50, 100, 250, 500, 1000];
const DIRTY_MIB = [0, 64, 128, 256, 512];
const LAYERS = [1, 5, 10, 20, 40];
const BURSTS = [1, 5, 10, 20, 50, 100];
/** Concurrency of crun; more would only be slower. */
const RUNS_AT_ONCE = 8;
const ROUNDS = 3;
const CREATES = 5;

const INTERPRETERS = [1, 5, 10, 20, 40];
const INTERPRETERS_LONG = [1, 10, 20, 40, 60, 100, 150, 200];
/** More need most of the memory of a machine with 24 GiB. */
const INTERPRETERS_UNSHARED_MAX = 60;
const MERGED_MS = 120_000;
const MIB_OF_GIB = 1024;

type Named = Omit<Plot, "note"> & { file: string };

const MEASURES: Record<PlotName, (context: Context) => Promise<Named[]>> = {
  burst: bursts,
  pause: pauses,
  build: builds,
  growth,
  interpreters,
};

/** Writes these plots, or all of them, and returns their file names. */
export async function drawPlots(
  context: Context,
  machine: MachineFacts,
  at: string,
  names: readonly PlotName[],
): Promise<string[]> {
  const { cores, arch, kernel, loadBefore } = machine;
  const note = `${at.slice(0, 10)}, ${arch}, ${cores} cores, Linux ${kernel.split("-")[0]}, load before ${loadBefore}`;
  mkdirSync(FOLDER, { recursive: true });
  const drawn: string[] = [];
  for (const name of names) {
    for (const { file, ...plot } of await MEASURES[name](context)) {
      writeFileSync(join(FOLDER, file), svgOf({ ...plot, note }));
      console.error(`  ${file}: ${plot.lines.map(inWords).join("; ")}`);
      drawn.push(file);
    }
  }
  return drawn;
}

async function bursts(context: Context): Promise<Named[]> {
  await using cold = await SecondServer.start(context);
  await using floor = await PlainContainer.make(context);
  const [ours, peer] = [line("creates, none ready"), line(`crun run of true, ${RUNS_AT_ONCE} at a time`)];
  for (const count of BURSTS) {
    let ids: string[] = [];
    const work = async () => {
      ids = await createTogether(cold.context, count);
    };
    ours.points.push({ x: count, y: await timed(work) });
    await killAll(cold.context, ids);
    peer.points.push({ x: count, y: await timed(() => floor.runTogether(count, RUNS_AT_ONCE)) });
  }
  const title = "Until the last of a burst is there";
  return [{ file: "burst.svg", title, x: "creates at once", y: "ms", lines: [ours, peer] }];
}

async function pauses(context: Context): Promise<Named[]> {
  await using criu = await BareCriu.make(context);
  const [ours, peer] = [line("pause"), line("bare criu dump and fsync")];
  for (const mib of DIRTY_MIB) {
    const times: { ours: number[]; peer: number[] } = { ours: [], peer: [] };
    for (let round = 0; round < ROUNDS; round++) {
      await using sandbox = await BenchSandbox.make(context);
      if (mib > 0) await holdMemory(sandbox, mib);
      times.peer.push(await criu.dump(sandbox.id));
      times.ours.push(await timed(() => context.call("POST", `/sandboxes/${sandbox.id}/pause`, {})));
    }
    ours.points.push({ x: mib, y: summary(times.ours).median });
    peer.points.push({ x: mib, y: summary(times.peer).median });
  }
  const title = "Pause of a sandbox with memory of its own";
  return [{ file: "pause.svg", title, x: "MiB of its own memory", y: "ms", lines: [ours, peer] }];
}

async function builds(context: Context): Promise<Named[]> {
  const [cold, cached] = [line("nothing cached"), line("all cached")];
  for (const count of LAYERS) {
    const name = `bench-layers-${count}`;
    const wanted = { name, from: { fromTemplate: "base" }, commands: smallCommands(count) };
    cold.points.push({ x: count, y: await timed(() => build(context, { ...wanted, force: true })) });
    cached.points.push({ x: count, y: await timed(() => build(context, wanted)) });
    await removeTemplate(context, name);
  }
  const title = "Build of a template of small steps";
  return [{ file: "build.svg", title, x: "steps, a layer each", y: "ms", lines: [cold, cached] }];
}

async function growth(context: Context): Promise<Named[]> {
  const [create, list, memory] = [
    line("create, from the ready pool"),
    line("first page of the list"),
    line("each sandbox"),
  ];
  const ids: string[] = [];
  try {
    for (const count of context.long ? SANDBOXES_LONG : SANDBOXES) {
      await grow(context, ids, count);
      create.points.push({ x: count, y: summary(await creates(context, CREATES)).median });
      list.points.push({ x: count, y: summary(await lists(context)).median });
      memory.points.push({ x: count, y: summary(ids.map((id) => memoryOf(context, id))).median });
    }
  } finally {
    await endAll(context, ids);
  }
  const x = "sandboxes that run";
  return [
    { file: "create.svg", title: "Create among sandboxes that run", x, y: "ms", lines: [create] },
    { file: "list.svg", title: "List of sandboxes that run", x, y: "ms", lines: [list] },
    { file: "memory.svg", title: "Memory of an idle sandbox", x, y: "MiB", lines: [memory] },
  ];
}

/** Without sharing first: its interpreters are gone before the others are made. */
async function interpreters(context: Context): Promise<Named[]> {
  const [on, off] = [line("with shared memory"), line("without")];
  for (const each of [off, on]) {
    const server = await (each === on ? sharingServer(context, { settings: MANY_CPU }) : SecondServer.start(context));
    if ("notMeasured" in server) return notDrawn(server.notMeasured);
    await using second = server;
    const made = await Interpreters.on(second.context);
    if ("notMeasured" in made) return notDrawn(made.notMeasured);
    await using interpreters = made;
    for (const count of context.long ? INTERPRETERS_LONG : INTERPRETERS) {
      if (each === off && count > INTERPRETERS_UNSHARED_MAX) break;
      await interpreters.grow(count, () => untilRoom(second.context));
      if (each === on) await untilMerged(MERGED_MS);
      const all = await memoryOfAll(second.context, interpreters.ids);
      each.points.push({ x: count, y: all.reduce((sum, mib) => sum + mib, 0) / MIB_OF_GIB });
    }
  }
  const title = "Memory of interpreters that have run pandas";
  return [{ file: "interpreters.svg", title, x: "interpreters that run", y: "GiB", lines: [on, off] }];
}

function notDrawn(reason: string): Named[] {
  console.error(`  interpreters.svg is not drawn: ${reason}`);
  return [];
}

function line(name: string): Line {
  return { name, points: [] };
}

function inWords({ name, points }: Line): string {
  return `${name} ${points.map(({ x, y }) => `${x}: ${y.toFixed(1)}`).join(", ")}`;
}
