/** The cost of a create beyond that of a bare container. The server has a ready pool, as by default. */
import { interleave, secondTimed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { createMs } from "../../sandboxes/creating.ts";

export const create: Row = {
  name: "create",
  what: "create through the API, one at a time",
  beside: {
    peer: "crun run of true on the same root",
    ratio: "cost",
    bounds: { atLeast: 2, aim: 0.5 },
  },
  quick: true,
  async run(context) {
    await using floor = await PlainContainer.make(context);
    const peer = () => secondTimed(() => floor.run());
    return { pairs: await interleave(context.rounds, () => createMs(context), peer) };
  },
};
