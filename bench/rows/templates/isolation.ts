/** The cost of the runtime runsc: the same life of a sandbox as with crun. */
import { summary } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { type Moment, momentBehindBoth, PROCESSES } from "./isolation-lives.ts";

const PEER = "the same with crun";

export const RUNSC_ROWS: readonly Row[] = [
  rowOf("runsc-create", "create", "cold create through the SDK with runsc"),
  rowOf("runsc-first-output", "firstOutput", "cold create → first command's output with runsc"),
  rowOf("runsc-command", "command", 'commands.run("true") through the SDK with runsc'),
  rowOf("runsc-processes", "processes", `a shell that starts ${PROCESSES} processes one by one, with runsc`),
  rowOf("runsc-python", "python", "a start of Python with some libraries, with runsc"),
  rowOf("runsc-pause", "pause", "pause with runsc, of an idle sandbox that has run these"),
  rowOf("runsc-resume", "resume", "resume of the same with runsc, until its runtime has answered"),
  {
    name: "runsc-memory",
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
