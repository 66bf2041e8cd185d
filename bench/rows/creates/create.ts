/**
 * What a create costs beyond the least that any container costs. The server has booted sandboxes ready, as it always
 * does.
 */
import { Fault } from "../../../src/contract/fault.ts";
import { interleave, secondTimed, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";

export const create: Row = {
  name: "create",
  what: "create through the API, one at a time",
  beside: {
    peer: "crun run of true on the same root",
    ratio: "cost",
    bounds: { atLeast: 4, aim: 2 },
  },
  async run(context) {
    await using floor = await PlainContainer.make(context);
    const createOne = async () => {
      await context.untilReady();
      let id = "";
      const ms = await timed(async () => {
        id = sandboxId(await context.call("POST", "/v2/sandboxes", { templateID: "base" }));
      });
      await context.call("DELETE", `/sandboxes/${id}`);
      await context.untilReady();
      return ms;
    };
    return { pairs: await interleave(context.rounds, createOne, () => secondTimed(() => floor.run())) };
  },
};

export function sandboxId(created: unknown): string {
  const { sandboxID } = created as { sandboxID?: unknown };
  if (typeof sandboxID !== "string") throw new Fault(500, "the answer to a create has no sandboxID");
  return sandboxID;
}
