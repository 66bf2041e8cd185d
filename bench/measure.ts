/** Runs the given rows, prints them and writes the figures. Exits with 1 when a row misses its bound. */
import { writeFileSync } from "node:fs";
import { Fault } from "../src/contract/fault.ts";
import { Context, type Task } from "./context.ts";
import { machineFacts } from "./figures/machine-facts.ts";
import { figuresOf, inShort, type Report, table } from "./figures/report.ts";
import { PeerFault } from "./peers/peer.ts";
import { drawPlots } from "./plots/plots.ts";
import type { Outcome, Row } from "./row.ts";
import { ROWS } from "./rows.ts";

const MISSED = 1;

try {
  process.exit(await measure((await Bun.stdin.json()) as Task));
} catch (thrown) {
  console.error(thrown instanceof Fault ? `sandlot bench: ${thrown.message}` : thrown);
  process.exit(1);
}

async function measure(task: Task): Promise<number> {
  const context = new Context(task);
  const { rounds, long } = task;
  const report: Report = { at: new Date().toISOString(), machine: machineFacts(), rounds, long, rows: [] };
  for (const row of ROWS.filter(({ name }) => task.rows.includes(name))) {
    console.error(`sandlot bench: ${row.what}`);
    const figures = figuresOf(row, await outcomeOf(row, context, task));
    // Print each row at once, so that an interrupted run still shows its results.
    console.error(`  ${inShort(figures)}`);
    report.rows.push(figures);
  }
  if (task.plots.length > 0) {
    console.error("sandlot bench: plots");
    const drawn = await drawPlots(context, report.machine, report.at, task.plots);
    console.log(`docs/plots: ${drawn.join(", ")}`);
  }
  if (report.rows.length > 0) console.log(table(report));
  if (task.jsonFile !== undefined) writeFileSync(task.jsonFile, `${JSON.stringify(report, null, 2)}\n`);
  return report.rows.some((row) => "verdict" in row && row.verdict === "missed") ? MISSED : 0;
}

/** A failing row counts as missed, and the others are still measured. */
async function outcomeOf(row: Row, context: Context, { missing }: Task): Promise<Outcome> {
  const { needs } = row;
  const absent = needs === undefined ? undefined : missing[needs];
  if (absent !== undefined) return { notMeasured: `${needs} is missing: ${absent}` };
  try {
    return await row.run(context);
  } catch (thrown) {
    if (thrown instanceof PeerFault) return { notMeasured: thrown.message };
    console.error(thrown);
    return { broken: [`it failed: ${thrown instanceof Error ? thrown.message : String(thrown)}`] };
  }
}
