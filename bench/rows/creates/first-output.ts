/** The wait of a user: from a create to the first output of a command, beside podman. */
import { Sandbox } from "e2b";
import { Fault } from "../../../src/contract/fault.ts";
import { interleave, summary, timed } from "../../figures/samples.ts";
import { Podman } from "../../peers/podman.ts";
import type { Row } from "../../row.ts";

export const firstOutput: Row = {
  name: "first-output",
  what: "create → first command's output through the SDK",
  beside: {
    peer: "podman run --rm --network=none, same root, to its output",
    ratio: "speed",
    bounds: { atLeast: 5, aim: 10 },
  },
  needs: "podman",
  quick: true,
  async run(context) {
    const podman = new Podman(context);
    const toTheEnd: number[] = [];
    const pairs = await interleave(
      context.rounds,
      async () => {
        await context.untilReady();
        let sandbox: Sandbox | undefined;
        const ms = await timed(async () => {
          sandbox = await Sandbox.create(context.sdk);
          const { stdout } = await sandbox.commands.run("echo hi");
          if (stdout !== "hi\n") throw new Fault(500, `echo hi printed ${JSON.stringify(stdout)}`);
        });
        await sandbox?.kill();
        await context.untilReady();
        return ms;
      },
      async () => {
        const { outputMs, endMs } = await podman.echo();
        toTheEnd.push(endMs);
        return outputMs;
      },
    );
    return { pairs, notes: [`podman run to its end, with --rm: median ${summary(toTheEnd).median.toFixed(1)} ms`] };
  },
};
