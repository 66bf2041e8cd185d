/** Runs the rows that it is told to, prints them, and writes the figures. Ends with 1 when a row misses its bound. */
import { writeFileSync } from "node:fs";
import { Fault } from "../src/contract/fault.ts";
import { Context, type Task } from "./context.ts";
import { machineFacts } from "./figures/machine-facts.ts";
import { figuresOf, type Report, table } from "./figures/report.ts";
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
    report.rows.push(figuresOf(row, await row.run(context)));
  }
  console.log(table(report));
  if (task.jsonFile !== undefined) writeFileSync(task.jsonFile, `${JSON.stringify(report, null, 2)}\n`);
  return report.rows.some((row) => "verdict" in row && row.verdict === "missed") ? MISSED : 0;
}
