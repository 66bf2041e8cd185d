/** The cost of a resume beyond CRIU's work for the same sandbox. */
import { interleave, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { besideSameImage } from "./same-image.ts";

export const resume: Row = {
  name: "resume",
  what: "resume of an idle sandbox through the API, until its runtime has answered",
  beside: {
    peer: "bare criu restore of its own dump of the same sandbox",
    ratio: "cost",
    bounds: { atLeast: 1.6, aim: 1.2 },
  },
  quick: true,
  async run(context) {
    await using criu = await BareCriu.make(context);
    await using sandbox = await BenchSandbox.make(context);
    const pauseIt = () => context.call("POST", `/sandboxes/${sandbox.id}/pause`, {});
    const resumeIt = () => context.call("POST", `/v2/sandboxes/${sandbox.id}/connect`, { timeout: 1800 });
    const sameImage: number[] = [];
    let peerMs = 0;
    const ours = async () => {
      await using dumped = await criu.dumpTogether([sandbox.id], 1);
      await pauseIt();
      const [name = ""] = criu.checkpoints();
      sameImage.push(await criu.restore(name));
      peerMs = await criu.restore(name, dumped);
      return await timed(resumeIt);
    };
    const pairs = await interleave(context.rounds, ours, async () => peerMs);
    return { pairs, notes: [besideSameImage(pairs, sameImage)] };
  },
};
