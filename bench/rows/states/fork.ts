/**
 * How long a caller waits for copies of a running sandbox. Nothing stands beside it: nobody else has it on such a
 * machine.
 */

import type { Context } from "../../context.ts";
import { summary, timed } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

export const fork: Row = {
  name: "fork",
  what: "fork of a running sandbox into one, at most 300 ms (aim 150 ms)",
  run: (context) => measure(context, 1, context.rounds, 300),
};

export const forkMany: Row = {
  name: "fork-50",
  what: "fork of a running sandbox into fifty, at most 3 s (aim 1.5 s)",
  run: (context) => measure(context, 50, Math.max(3, context.heavyRounds), 3_000),
};

async function measure(context: Context, count: number, rounds: number, mostMs: number) {
  await using sandbox = await BenchSandbox.make(context);
  const times: number[] = [];
  for (let round = -1; round < rounds; round++) {
    let entries: { sandbox?: { sandboxID: string }; error?: { message: string } }[] = [];
    const ms = await timed(async () => {
      const body = { count, timeout: 600 };
      entries = (await context.call("POST", `/sandboxes/${sandbox.id}/fork`, body)) as typeof entries;
    });
    // The first fills caches.
    if (round >= 0) times.push(ms);
    const failed = entries.find(({ error }) => error !== undefined);
    if (failed !== undefined) return { broken: [`a fork failed: ${failed.error?.message}`] };
    await Promise.all(entries.map((entry) => context.call("DELETE", `/sandboxes/${entry.sandbox?.sandboxID}`)));
    await context.untilReady();
  }
  const { median, p10, p90 } = summary(times);
  const text = `${median.toFixed(0)} ms [${p10.toFixed(0)}–${p90.toFixed(0)}] for ${count}`;
  return { notes: [text], broken: median > mostMs ? [`${text}, more than ${mostMs} ms`] : [] };
}
