/**
 * Cold creates on a server without a ready pool, so that each boots: alone, and a hundred at once, beside as many bare
 * containers.
 */
import type { Context } from "../../context.ts";
import { interleave, secondTimed, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { createTogether, killAll } from "../../sandboxes/creating.ts";
import { SecondServer } from "../../sandboxes/second-server.ts";

const TOGETHER = 100;
/** A round is a hundred boots, each of which fills the caches for the next. */
const FEW_ROUNDS = 2;

export const createMiss: Row = {
  name: "create-miss",
  what: "cold create through the API, one at a time",
  beside: { peer: "crun run of true on the same root", ratio: "cost" },
  run: (context) => measure(context, 1, context.rounds),
};

export const createMissMany: Row = {
  name: "create-miss-100",
  what: "a hundred concurrent cold creates, until the last response",
  beside: { peer: "a hundred concurrent crun runs of true on the same root", ratio: "cost" },
  run: (context) => measure(context, TOGETHER, context.long ? context.heavyRounds : FEW_ROUNDS),
};

async function measure(context: Context, count: number, rounds: number) {
  await using cold = await SecondServer.start(context);
  await using floor = await PlainContainer.make(context);
  const ours = async () => {
    let ids: string[] = [];
    const ms = await timed(async () => {
      ids = await createTogether(cold.context, count);
    });
    await killAll(cold.context, ids);
    return ms;
  };
  const peer = () => (count === 1 ? secondTimed(() => floor.run()) : timed(() => floor.runTogether(count)));
  return { pairs: await interleave(rounds, ours, peer, count === 1 ? undefined : 0) };
}
