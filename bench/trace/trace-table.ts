/** Turns steps into a table: each within its parent, in order of start. */
import type { Step, Uses } from "../../src/base/steps.ts";

/** The client's view of an operation. */
export interface Exchange {
  /** In milliseconds since 1970. */
  beganAt: number;
  wallMs: number;
  /** Processor time of the client itself. */
  clientMs: number;
  /** Processor time of the whole machine meanwhile. */
  machineMs: number;
}

interface Node {
  name: string;
  beganAt: number;
  endedAt: number;
  uses: Uses;
  parts: Node[];
}

const WHO = ["server", "workers", "runtime", "edge", "helpers", "sandboxes"] as const;
/** Processor time of helpers has no counter: a root has only that of its own parts. */
const NOTED = "helpers";
const MS_WIDTH = 10;
/** Shorter gaps are not shown. */
const GAP_MIN_MS = 0.5;
/** Difference between the clocks of two processes. */
const SLACK_MS = 1;

export function traceTable(title: string, exchange: Exchange, steps: readonly Step[]): string {
  const from = exchange.beganAt - SLACK_MS;
  const until = exchange.beganAt + exchange.wallMs + SLACK_MS;
  const roots = joined(treesOf(steps.filter(({ beganAt }) => beganAt >= from)));
  const request = roots.filter((root) => root.endedAt <= until);
  const after = roots.filter((root) => root.endedAt > until);
  const nameWidth = Math.max(...roots.flatMap((root) => widths(root, 1)), title.length, 40) + 2;
  const line = (name: string, wallMs: number, uses: Uses | undefined) =>
    name.padEnd(nameWidth) + [wallMs, ...WHO.map((who) => uses?.[who])].map(cell).join("");
  const body = (nodes: readonly Node[]) => nodes.flatMap((node) => linesOf(node, 1, line));
  const total = sumOf(request);
  const inSteps = covered(request);
  const accounted = Object.values(total).reduce((sum, ms) => sum + ms, 0);
  return [
    title,
    "".padEnd(nameWidth) + ["wall ms", ...WHO].map((head) => head.padStart(MS_WIDTH)).join(""),
    line("the client", exchange.wallMs, undefined),
    ...body(request),
    line("sum of the steps", inSteps, total),
    ...(after.length === 0 ? [] : ["done besides, or gone on with after the answer:", ...body(after)]),
    `wall time in no step of the server (client, kernel, the way there and back): ${ms(exchange.wallMs - inSteps)} ms`,
    `processor time: ${ms(accounted)} ms in steps, ${ms(exchange.clientMs)} ms of the client;` +
      ` ${ms(Math.max(0, exchange.machineMs - accounted - exchange.clientMs))} ms elsewhere on this machine (to 10 ms)`,
  ].join("\n");
}

function treesOf(steps: readonly Step[]): Node[] {
  const nodes = new Map(steps.map((step) => [step.number, nodeOf(step)]));
  const roots: Node[] = [];
  for (const { number, within } of steps) {
    const node = nodes.get(number);
    if (node === undefined) continue;
    const parent = within === null ? undefined : nodes.get(within);
    // Work that a step deferred until after its end is not part of it.
    const isPart = parent !== undefined && node.beganAt <= parent.endedAt;
    (isPart ? parent.parts : roots).push(node);
  }
  for (const node of nodes.values()) node.parts.sort(byBegin);
  return roots.sort(byBegin);
}

function nodeOf({ name, beganAt, wallMs, uses, failed }: Step): Node {
  return { name: failed ? `${name} (failed)` : name, beganAt, endedAt: beganAt + wallMs, uses, parts: [] };
}

/** Steps without a known parent: one that ran entirely during another is shown within it. */
function joined(roots: readonly Node[]): Node[] {
  const tops: Node[] = [];
  for (const root of roots) {
    const around = tops.find((top) => top.beganAt <= root.beganAt && root.endedAt <= top.endedAt);
    if (around === undefined) tops.push(root);
    else {
      around.parts.push(root);
      around.uses = { ...around.uses, [NOTED]: (around.uses[NOTED] ?? 0) + (root.uses[NOTED] ?? 0) };
    }
  }
  for (const top of tops) top.parts.sort(byBegin);
  return tops;
}

type Line = (name: string, wallMs: number, uses: Uses | undefined) => string;

function linesOf(node: Node, depth: number, line: Line): string[] {
  const indent = "  ".repeat(depth);
  const own = line(indent + node.name, node.endedAt - node.beganAt, node.uses);
  const parts = node.parts.flatMap((part) => linesOf(part, depth + 1, line));
  const gap = node.endedAt - node.beganAt - covered(node.parts);
  if (parts.length === 0 || gap < GAP_MIN_MS) return [own, ...parts];
  return [own, ...parts, line(`${indent}  (between these)`, gap, leftOf(node))];
}

/** Overlapping parts each count what was used meanwhile, so the rest is unknown. */
function leftOf({ uses, parts }: Node): Uses | undefined {
  const overlap = parts.some((part, at) => at > 0 && part.beganAt < (parts[at - 1]?.endedAt ?? 0));
  if (overlap) return undefined;
  const used = sumOf(parts);
  return Object.fromEntries(WHO.map((who) => [who, Math.max(0, (uses[who] ?? 0) - (used[who] ?? 0))]));
}

function sumOf(nodes: readonly Node[]): Record<string, number> {
  return Object.fromEntries(WHO.map((who) => [who, nodes.reduce((sum, { uses }) => sum + (uses[who] ?? 0), 0)]));
}

/** Time during which any of them ran. They are in order of start. */
function covered(nodes: readonly Node[]): number {
  let sum = 0;
  let until = 0;
  for (const { beganAt, endedAt } of nodes) {
    sum += Math.max(0, endedAt - Math.max(beganAt, until));
    until = Math.max(until, endedAt);
  }
  return sum;
}

function widths(node: Node, depth: number): number[] {
  return [2 * depth + node.name.length, ...node.parts.flatMap((part) => widths(part, depth + 1))];
}

function byBegin(one: Node, other: Node): number {
  return one.beganAt - other.beganAt;
}

function cell(value: number | undefined): string {
  return (value === undefined ? "" : ms(Math.max(0, value))).padStart(MS_WIDTH);
}

function ms(value: number): string {
  return value.toFixed(1);
}
