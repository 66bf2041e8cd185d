/**
 * Measures the same life of a sandbox with each isolation runtime, alternately: create, first command, another command,
 * a hundred processes, Python, pause, resume and kill. All rows about isolation runtimes share these measurements.
 */
import { join } from "node:path";
import { Sandbox } from "e2b";
import { serverEnv } from "../../../src/cli/testing/server-env.ts";
import { Fault } from "../../../src/contract/fault.ts";
import { RUNTIME_NAMES, type RuntimeName } from "../../../src/contract/runtime-name.ts";
import { run } from "../../../src/system/command.ts";
import type { Context } from "../../context.ts";
import { type Pairs, timed } from "../../figures/samples.ts";
import { build } from "../../sandboxes/bench-build.ts";
import { memoryOf } from "../../sandboxes/bench-sandbox.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";

/** In milliseconds, except for the memory. */
const MOMENTS = ["create", "firstOutput", "command", "processes", "python", "memoryMiB", "pause", "resume"] as const;
export type Moment = (typeof MOMENTS)[number];
type Life = Record<Moment, number>;

const MAIN = join(import.meta.dir, "../../../src/cli/main.ts");
const CHOICE_MS = 60_000;
const LIFE_MS = 600_000;
/** The first fills the caches, and those of the guest. */
const WARM_UP_LIVES = 1;
/** One life with runsc takes five seconds, and these rows have no bounds. */
const ROUNDS_OF_LIFE = 2;
/** Processes that a shell starts one after the other. */
export const PROCESSES = 100;
const MANY = `for i in $(seq ${PROCESSES}); do /bin/true; done`;
const PYTHON = "python3 -c 'import asyncio, json, ssl, sqlite3'";

const led = new WeakMap<Context, Promise<Record<RuntimeName, Life[]>>>();

/** Times with runsc (ours) and with crun (peer). */
export async function momentBehindBoth(context: Context, moment: Moment): Promise<Pairs> {
  const lives = led.get(context) ?? lead(context);
  led.set(context, lives);
  const { crun, runsc } = await lives;
  return { ours: runsc.map((life) => life[moment]), peer: crun.map((life) => life[moment]) };
}

async function lead(given: Context): Promise<Record<RuntimeName, Life[]>> {
  await using cold = await SecondServer.start(given);
  const { context } = cold;
  const lives: Record<RuntimeName, Life[]> = { crun: [], runsc: [] };
  for (const runtime of RUNTIME_NAMES) await makeTemplate(context, runtime);
  for (let round = -WARM_UP_LIVES; round < Math.ceil(context.rounds / ROUNDS_OF_LIFE); round++) {
    for (const runtime of RUNTIME_NAMES) {
      const life = await leadOne(context, runtime);
      if (round >= 0) lives[runtime].push(life);
    }
  }
  return lives;
}

function templateOf(runtime: RuntimeName): string {
  return `isolation-${runtime}`;
}

/** On a server without a ready pool, so that each create boots. */
async function makeTemplate(context: Context, runtime: RuntimeName): Promise<void> {
  const name = templateOf(runtime);
  await build(context, { name, from: { fromTemplate: "base" }, commands: [] });
  const env = serverEnv(context.data.path, { SANDLOT_CACHE: context.toolbox.cacheFolder });
  await run([process.execPath, MAIN, "templates", "wall", name, runtime], { env, timeoutMs: CHOICE_MS });
}

async function leadOne(context: Context, runtime: RuntimeName): Promise<Life> {
  await context.untilReady();
  let made: Sandbox | undefined;
  const create = await timed(async () => {
    made = await Sandbox.create(templateOf(runtime), { ...context.sdk, timeoutMs: LIFE_MS });
  });
  if (made === undefined) throw new Fault(500, "a create answered nothing");
  const sandbox = made;
  const firstOutput = create + (await timed(() => say(sandbox)));
  const command = await timed(() => sandbox.commands.run("true"));
  const memoryMiB = memoryOf(context, sandbox.sandboxId);
  const processes = await timed(() => sandbox.commands.run(MANY));
  const python = await timed(() => sandbox.commands.run(PYTHON));
  const pause = await timed(() => sandbox.pause());
  const resume = await timed(() => sandbox.connect({ timeoutMs: LIFE_MS }));
  await say(sandbox);
  await sandbox.kill();
  await context.untilReady();
  return { create, firstOutput, command, processes, python, memoryMiB, pause, resume };
}

async function say(sandbox: Sandbox): Promise<void> {
  const { stdout } = await sandbox.commands.run("echo hi");
  if (stdout !== "hi\n") throw new Fault(500, `echo hi printed ${JSON.stringify(stdout)}`);
}
