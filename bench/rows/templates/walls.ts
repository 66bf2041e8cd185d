/** The cost of the runtime runsc: the same life of a sandbox as with crun. */

import { summary } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { type Moment, momentBehindBoth, PROCESSES } from "./wall-lives.ts";

const PEER = "the same with crun";

export const WALL_ROWS: readonly Row[] = [
  rowOf("wall-create", "create", "cold create through the SDK with runsc"),
  rowOf("wall-first-output", "firstOutput", "cold create → first command's output with runsc"),
  rowOf("wall-command", "command", 'commands.run("true") through the SDK with runsc'),
  rowOf("wall-processes", "processes", `a shell that starts ${PROCESSES} processes one by one, with runsc`),
  rowOf("wall-python", "python", "a start of Python with some libraries, with runsc"),
  rowOf("wall-pause", "pause", "pause with runsc, of an idle sandbox that has run these"),
  rowOf("wall-resume", "resume", "resume of the same with runsc, until its runtime has answered"),
  {
    name: "wall-memory",
    what: "memory of a sandbox after two commands, with runsc and with crun",
    async run(context) {
      const { ours, peer } = await momentBehindBoth(context, "memoryMiB");
      const [runsc, crun] = [summary(ours), summary(peer)];
      const spread = ({ median, p10, p90 }: typeof runsc) =>
        `${median.toFixed(1)} MiB [${p10.toFixed(1)}–${p90.toFixed(1)}]`;
      return { notes: [`runsc ${spread(runsc)}, crun ${spread(crun)}: ${(runsc.median / crun.median).toFixed(2)} ×`] };
    },
  },
];

function rowOf(name: string, moment: Moment, what: string): Row {
  return {
    name,
    what,
    beside: { peer: PEER, ratio: "cost" },
    run: async (context) => ({ pairs: await momentBehindBoth(context, moment) }),
  };
}
