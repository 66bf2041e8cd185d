/** What a command costs in a sandbox that runs, against the shortest way into the very same one. */
import { Sandbox } from "e2b";
import { interleave, secondTimed } from "../../figures/samples.ts";
import { execInSandbox } from "../../peers/crun-exec.ts";
import type { Row } from "../../row.ts";

export const roundTrip: Row = {
  name: "round-trip",
  what: 'commands.run("true") round trip through the SDK',
  beside: {
    peer: "crun exec … /bin/bash -l -c true in the same sandbox",
    ratio: "cost",
    bounds: { atLeast: 1.2, aim: 0.8 },
  },
  quick: true,
  async run(context) {
    const sandbox = await Sandbox.create(context.sdk);
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
