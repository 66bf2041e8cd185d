/**
 * Many creates at once of the template that the ready pool holds: those beyond the pool boot. Also the same without
 * pauses between creates, for which the pool cannot prepare.
 */
import { readPoolReport } from "../../../src/sandbox/pool/pool-report.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { createSandbox, createTogether, killAll } from "../../sandboxes/creating.ts";

/** Concurrency of crun; more would only be slower. */
const AT_ONCE = 8;
const IN_A_ROW = 30;
const ROUNDS_MIN = 3;
/** A round is a hundred boots, each of which fills the caches for the next. */
const FEW_ROUNDS = 2;
/** For what the server keeps ready. */
const PREPARED_MS = 15_000;
const POLL_MS = 100;
const BOUNDS = { atLeast: 3, aim: 2 };

export const burst: Row = burstOf("burst-20", 20, BOUNDS);
export const burstMany: Row = burstOf("burst-100", 100, BOUNDS);

function burstOf(name: string, count: number, bounds: { atLeast: number; aim: number }): Row {
  return {
    name,
    what: `${count} concurrent creates through the API, until the last response`,
    beside: { peer: `${count} crun runs of true on the same root, ${AT_ONCE} at a time`, ratio: "cost", bounds },
    ...(count > IN_A_ROW ? {} : { quick: true as const }),
    async run(context) {
      await using floor = await PlainContainer.make(context);
      await untilPrepared(context);
      const all: number[] = [];
      const ours = async () => {
        await context.untilReady();
        let ids: string[] = [];
        const ms = await timed(async () => {
          ids = await createTogether(context, count);
        });
        all.push(ms);
        await killAll(context, ids);
        return ms;
      };
      const few = count > IN_A_ROW ? FEW_ROUNDS : ROUNDS_MIN;
      const rounds = context.long ? context.heavyRounds : Math.min(context.heavyRounds, few);
      const pairs = await interleave(rounds, ours, () => timed(() => floor.runTogether(count, AT_ONCE)), 1);
      return { pairs, notes: [`the first, before any was asked for: ${all[0]?.toFixed(0)} ms`] };
    },
  };
}

async function untilPrepared({ data }: Context): Promise<void> {
  const isPrepared = () => readPoolReport(data)?.templates.every(({ ready, target }) => ready >= target) === true;
  const deadline = performance.now() + PREPARED_MS;
  while (!isPrepared() && performance.now() < deadline) await Bun.sleep(POLL_MS);
}

export const sustained: Row = {
  name: "sustained",
  what: `one of ${IN_A_ROW} consecutive creates without a pause`,
  beside: {
    peer: "one of as many consecutive crun runs of true on the same root",
    ratio: "cost",
    bounds: { atLeast: 3, aim: 1.5 },
  },
  quick: true,
  async run(context) {
    await using floor = await PlainContainer.make(context);
    const ours = async () => {
      await context.untilReady();
      const ids: string[] = [];
      const ms = await timed(async () => {
        while (ids.length < IN_A_ROW) ids.push(await createSandbox(context));
      });
      await killAll(context, ids);
      return ms / IN_A_ROW;
    };
    const peer = async () => (await timed(() => floor.runTogether(IN_A_ROW, 1))) / IN_A_ROW;
    return { pairs: await interleave(Math.min(context.heavyRounds, ROUNDS_MIN), ours, peer, context.quick ? 0 : 1) };
  },
};
