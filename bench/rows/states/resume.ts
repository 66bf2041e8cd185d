/** What a resume costs beyond CRIU's own work on the very same images. */
import { interleave, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

export const resume: Row = {
  name: "resume",
  what: "resume of an idle sandbox through the API, until its runtime has answered",
  beside: { peer: "bare criu restore of the same image", ratio: "cost", bounds: { atLeast: 1.6, aim: 1.2 } },
  quick: true,
  async run(context) {
    await using criu = await BareCriu.make(context);
    await using sandbox = await BenchSandbox.make(context);
    const pauseIt = () => context.call("POST", `/sandboxes/${sandbox.id}/pause`, {});
    const resumeIt = () => context.call("POST", `/v2/sandboxes/${sandbox.id}/connect`, { timeout: 1800 });
    let peerMs = 0;
    const ours = async () => {
      await pauseIt();
      const [name = ""] = criu.checkpoints();
      peerMs = await criu.restore(name);
      return await timed(resumeIt);
    };
    return { pairs: await interleave(context.rounds, ours, async () => peerMs) };
  },
};
