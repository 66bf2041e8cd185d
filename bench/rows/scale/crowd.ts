/**
 * Measures many idle sandboxes: the cost of each, and the latency of other calls. All rows about this share one crowd,
 * which is made once.
 */
import { runningServer } from "../../../src/cli/server-file.ts";
import type { Context } from "../../context.ts";
import { processorTimeIn, processorTimeOf } from "../../figures/processor-time.ts";
import { inTurns, type Pairs, timed } from "../../figures/samples.ts";
import { memoryOf } from "../../sandboxes/bench-sandbox.ts";
import { createMs, createSandbox, killAll } from "../../sandboxes/creating.ts";

const USUAL = 100;
const LONG = 500;
/** Sandboxes during list calls in the long run. */
const LONG_LISTED = 1000;
const CREATES_AT_ONCE = 8;
/** Wait after the last create until all are idle. */
const SETTLE_MS = 3_000;
const IDLE_MS = 10_000;
const ASKED = 50;
const ROUNDS_MIN = 3;

export interface Crowd {
  count: number;
  listed: number;
  /** MiB per sandbox. */
  memory: number[];
  /** Percent of one processor: of all guests together, and of the server. */
  idle: { guests: number; server: number };
  /** With the crowd, and without. */
  create: Pairs;
  /** With the crowd, and with one sandbox. */
  list: Pairs;
  get: Pairs;
}

const made = new WeakMap<Context, Promise<Crowd>>();

export async function crowdOf(context: Context): Promise<Crowd> {
  const crowd = made.get(context) ?? measure(context);
  made.set(context, crowd);
  return await crowd;
}

async function measure(context: Context): Promise<Crowd> {
  const rounds = Math.max(ROUNDS_MIN, Math.ceil(context.rounds / 2));
  const ids: string[] = [];
  const alone = await creates(context, rounds);
  try {
    await grow(context, ids, 1);
    const one = { list: await lists(context), get: await gets(context, ids) };
    await grow(context, ids, context.long ? LONG : USUAL);
    await Bun.sleep(SETTLE_MS);
    const count = ids.length;
    const memory = ids.map((id) => memoryOf(context, id));
    const idle = await idleOf(context, ids);
    const among = await creates(context, rounds);
    if (context.long) await grow(context, ids, LONG_LISTED);
    const listed = ids.length;
    const many = { list: await lists(context), get: await gets(context, ids) };
    await endAll(context, ids);
    // Measure the peer before and after the crowd, so that other load on the machine affects both sides.
    const create = { ours: among, peer: [...alone, ...(await creates(context, rounds))] };
    const pairs = (name: "list" | "get"): Pairs => ({ ours: many[name], peer: one[name] });
    return { count, listed, memory, idle, create, list: pairs("list"), get: pairs("get") };
  } finally {
    await endAll(context, ids);
  }
}

/** Creates sandboxes until there are this many. */
export async function grow(context: Context, ids: string[], to: number): Promise<void> {
  const more = Array.from({ length: to - ids.length }, (_, nth) => nth);
  await inTurns(more, CREATES_AT_ONCE, async () => void ids.push(await createSandbox(context)));
  await context.untilReady();
}

export async function endAll(context: Context, ids: string[]): Promise<void> {
  for (let some = ids.splice(0, USUAL); some.length > 0; some = ids.splice(0, USUAL)) await killAll(context, some);
}

export async function creates(context: Context, rounds: number): Promise<number[]> {
  const times: number[] = [];
  while (times.length < rounds) times.push(await createMs(context));
  return times;
}

export async function lists(context: Context): Promise<number[]> {
  const times: number[] = [];
  while (times.length < ASKED) times.push(await timed(() => context.call("GET", "/v2/sandboxes?limit=100")));
  return times;
}

async function gets(context: Context, ids: readonly string[]): Promise<number[]> {
  const times: number[] = [];
  while (times.length < ASKED) {
    const id = ids[(times.length * 7) % ids.length];
    times.push(await timed(() => context.call("GET", `/sandboxes/${id}`)));
  }
  return times;
}

async function idleOf(context: Context, ids: readonly string[]): Promise<Crowd["idle"]> {
  const guests = () => ids.reduce((sum, id) => sum + processorTimeIn(`${context.data.cgroup}/${id}`), 0);
  const server = () => processorTimeOf(runningServer(context.data) ?? 0).own;
  const before = { guests: guests(), server: server() };
  const ms = await timed(() => Bun.sleep(IDLE_MS));
  const percent = (now: number, then: number) => ((now - then) / ms) * 100;
  return { guests: percent(guests(), before.guests), server: percent(server(), before.server) };
}
