/** Processor time of a boot, which limits how many can boot at once. */
import { runningServer } from "../../../src/cli/server-file.ts";
import { Fault } from "../../../src/contract/fault.ts";
import type { Context } from "../../context.ts";
import { type ProcessorTime, processorTimeIn, processorTimeOf } from "../../figures/processor-time.ts";
import { interleave, summary } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { createSandbox, killAll } from "../../sandboxes/creating.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";

/** Boots per sample: the kernel reports time of ended programs in steps of ten milliseconds. */
const BOOTS = 5;
/** Time for a guest to finish its start after the create's response, and for the server to clean up after a kill. */
const AFTER_MS = 500;

interface Boot {
  server: number;
  helpers: number;
  guest: number;
}

export const bootProcessor: Row = {
  name: "boot-processor",
  what: "processor time of one boot: server, programs that it starts, and guest",
  beside: {
    peer: "processor time of one crun run of true on the same root",
    ratio: "cost",
    bounds: { atLeast: 4, aim: 2.5 },
  },
  quick: true,
  async run(context) {
    await using cold = await SecondServer.start(context);
    await using floor = await PlainContainer.make(context);
    const boots: Boot[] = [];
    const ours = async () => {
      const boot = await measure(cold.context);
      boots.push(boot);
      return boot.server + boot.helpers + boot.guest;
    };
    const peer = async () => {
      let ms = 0;
      for (let nth = 0; nth < BOOTS; nth++) ms += await floor.runProcessorMs();
      return ms / BOOTS;
    };
    const pairs = await interleave(context.heavyRounds, ours, peer, 1);
    const part = (name: keyof Boot) => `${name} ${summary(boots.map((boot) => boot[name])).median.toFixed(1)} ms`;
    return { pairs, notes: [`${part("server")}, ${part("helpers")}, ${part("guest")}`] };
  },
};

async function measure(context: Context): Promise<Boot> {
  await context.untilReady();
  const pid = runningServer(context.data);
  if (pid === undefined) throw new Fault(500, "the server does not run");
  await Bun.sleep(AFTER_MS);
  const idle = processorTimeOf(pid);
  await Bun.sleep(AFTER_MS);
  const before = processorTimeOf(pid);
  const begun = performance.now();
  const ids: string[] = [];
  while (ids.length < BOOTS) ids.push(await createSandbox(context));
  await Bun.sleep(AFTER_MS);
  const after = processorTimeOf(pid);
  const guests = ids.map((id) => processorTimeIn(`${context.data.cgroup}/${id}`));
  // Subtract what the server uses anyway in that time.
  const passed = (performance.now() - begun) / AFTER_MS;
  const anyway = (name: keyof ProcessorTime) => (before[name] - idle[name]) * passed;
  const each = (name: keyof ProcessorTime) => (after[name] - before[name] - anyway(name)) / BOOTS;
  await killAll(context, ids);
  return {
    server: each("own"),
    helpers: each("ended"),
    guest: guests.reduce((sum, ms) => sum + ms, 0) / BOOTS,
  };
}
