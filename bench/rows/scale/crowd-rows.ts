/** The rows about many idle sandboxes. */
import { type Pairs, summary } from "../../figures/samples.ts";
import type { Row } from "../../row.ts";
import { type Crowd, crowdOf } from "./crowd.ts";

const MANY = "100 sandboxes (500 with --long)";
const LISTED = "100 sandboxes (1000 with --long)";
/** Memory per sandbox, which does not depend on the machine's speed. */
const MEMORY_MAX_MIB = 10;
const MEMORY_AIM_MIB = 6;
/** Percent of one processor, for a hundred sandboxes together. */
const IDLE_MAX_PERCENT = 4;
const IDLE_AIM_PERCENT = 1;

export const CROWD_ROWS: readonly Row[] = [
  {
    name: "memory-100",
    what: `memory of each of ${MANY} that are idle, at most ${MEMORY_MAX_MIB} MiB (aim ${MEMORY_AIM_MIB} MiB)`,
    async run(context) {
      const { memory, count } = await crowdOf(context);
      const { median, p10, p90 } = summary(memory);
      const text = `${median.toFixed(1)} MiB [${p10.toFixed(1)}–${p90.toFixed(1)}] with ${count}`;
      return { notes: [text], broken: median > MEMORY_MAX_MIB ? [`${text}, more than ${MEMORY_MAX_MIB} MiB`] : [] };
    },
  },
  {
    name: "idle-100",
    what: `processor time of ${MANY} that are idle, at most ${IDLE_MAX_PERCENT} % of one for a hundred (aim ${IDLE_AIM_PERCENT} %)`,
    async run(context) {
      const { idle, count } = await crowdOf(context);
      const guests = (idle.guests * 100) / count;
      const text = `${guests.toFixed(1)} % for each hundred guests; the server has ${idle.server.toFixed(1)} %`;
      return { notes: [text], broken: guests > IDLE_MAX_PERCENT ? [`${text}, more than ${IDLE_MAX_PERCENT} %`] : [] };
    },
  },
  crowdRow("create-among-100", `create through the API while ${MANY} run`, "the same with none", "create", {
    atLeast: 1.3,
    aim: 1.1,
  }),
  crowdRow("list-100", `first page of a list of ${LISTED}, 100 on a page`, "the same with one sandbox", "list"),
  crowdRow("get-100", `get of one sandbox while ${LISTED} run`, "the same with one sandbox", "get", {
    atLeast: 2,
    aim: 1.2,
  }),
];

function crowdRow(
  name: string,
  what: string,
  peer: string,
  moment: { [Name in keyof Crowd]: Crowd[Name] extends Pairs ? Name : never }[keyof Crowd],
  bounds?: { atLeast: number; aim: number },
): Row {
  return {
    name,
    what,
    beside: { peer, ratio: "cost", ...(bounds === undefined ? {} : { bounds }) },
    run: async (context) => ({ pairs: (await crowdOf(context))[moment] }),
  };
}
