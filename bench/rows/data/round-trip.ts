/** Cost of a command in a running sandbox, beside the shortest way into the same sandbox. */
import { Sandbox } from "e2b";
import type { Context } from "../../context.ts";
import { interleave, secondTimed } from "../../figures/samples.ts";
import { execInSandbox, hasReadyFilter } from "../../peers/crun-exec.ts";
import type { Row } from "../../row.ts";

/** More than the number of sandboxes that a server boots before it has the filter. */
const TRIES_MAX = 20;

export const roundTrip: Row = {
  name: "round-trip",
  what: 'commands.run("true") round trip through the SDK',
  beside: {
    peer: "crun exec … /bin/bash -l -c true in the same sandbox, with its compiled filter",
    ratio: "cost",
    bounds: { atLeast: 1.2, aim: 0.8 },
  },
  quick: true,
  async run(context) {
    const sandbox = await sandboxWithReadyFilter(context);
    if (sandbox === undefined) return { notMeasured: "crun has its filter ready made in no sandbox" };
    try {
      await context.untilReady();
      const ours = () => sandbox.commands.run("true");
      const peer = () => execInSandbox(context, sandbox.sandboxId, ["/bin/bash", "-l", "-c", "true"]);
      const pairs = await interleave(
        context.rounds,
        () => secondTimed(ours),
        () => secondTimed(peer),
      );
      return { pairs };
    } finally {
      await sandbox.kill();
    }
  },
};

/** A sandbox with the precompiled filter, like all but the first ones. Without it the floor is a third higher. */
async function sandboxWithReadyFilter(context: Context): Promise<Sandbox | undefined> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const sandbox = await Sandbox.create(context.sdk);
    if (hasReadyFilter(context, sandbox.sandboxId)) return sandbox;
    await sandbox.kill();
  }
  return undefined;
}
