/**
 * Memory of each further sandbox of a template after a program of the template has run in it. The template's files are
 * in the host's memory once for all sandboxes.
 */
import { Sandbox } from "e2b";
import { summary } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { memoryOf } from "../../sandboxes/bench-sandbox.ts";

const SANDBOXES = 20;
const PROGRAM = "python3 -c 'import asyncio, json, ssl, sqlite3'";
const LIFE_MS = 600_000;

export const memory: Row = {
  name: "memory-20",
  what: "memory of the 2nd to the 20th sandbox of one template, after each ran Python",
  async run(context) {
    const sandboxes: Sandbox[] = [];
    try {
      const used: number[] = [];
      for (let nth = 0; nth < SANDBOXES; nth++) {
        const sandbox = await Sandbox.create("base", { ...context.sdk, timeoutMs: LIFE_MS });
        sandboxes.push(sandbox);
        await sandbox.commands.run(PROGRAM);
        used.push(memoryOf(context, sandbox.sandboxId));
      }
      const [first = 0, ...others] = used;
      const { median, p10, p90 } = summary(others);
      const spread = `${median.toFixed(1)} MiB [${p10.toFixed(1)}–${p90.toFixed(1)}]`;
      return { notes: [`${spread}; the first has ${first.toFixed(1)} MiB, ${(median / first).toFixed(2)} × of it`] };
    } finally {
      await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
      await context.untilReady();
    }
  },
};
