/**
 * Time until new egress rules of a sandbox are enforced, when it is the only one with rules, and among many. Each
 * update changes names and ranges.
 */
import type { EgressPolicy } from "../../../src/contract/internal/host.ts";
import type { Context } from "../../context.ts";
import { interleave, summary, timed } from "../../figures/samples.ts";
import { BareNft } from "../../peers/bare-nft.ts";
import type { Beside, Outcome, Row } from "../../row.ts";
import { BenchForks } from "../../sandboxes/bench-forks.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const MANY = 50;
const MANY_LONG = 300;
const RANGES = 10;
const PEER = "one nft -f of the same change, in a separate table";
const BESIDE: Beside = { peer: PEER, ratio: "cost", bounds: { atLeast: 3, aim: 1.5 } };
const ALL = "0.0.0.0/0";

interface Rules {
  names: string[];
  ranges: string[];
}

export const networkUpdate: Row = {
  name: "network-update",
  what: "PUT network until the rules are enforced, with one sandbox",
  beside: BESIDE,
  run: (context) => measure(context, 1),
};

export const networkUpdateMany: Row = {
  name: "network-update-300",
  what: "PUT network until the rules are enforced, with 50 sandboxes that have rules (300 with --long)",
  beside: BESIDE,
  run: (context) => measure(context, context.long ? MANY_LONG : MANY),
};

async function measure(context: Context, count: number): Promise<Outcome> {
  let turn = 0;
  await using sandbox = await BenchSandbox.make(context, { network: requestOf(rulesOf(turn)) });
  await using floor = await BareNft.make(context);
  await using others = await BenchForks.make(sandbox, count - 1);
  const update = (id: string) => context.call("PUT", `/sandboxes/${id}/network`, requestOf(rulesOf(turn)));
  const pairs = await interleave(
    context.rounds,
    () => {
      turn += 1;
      return timed(() => update(sandbox.id));
    },
    () => floor.changeMs(policyOf(rulesOf(turn))),
  );
  if (count === 1) return { pairs };
  turn += 1;
  const togetherMs = await timed(() => Promise.all([sandbox.id, ...others.ids].map(update)));
  const { median } = summary(pairs.ours);
  const note = `${count} sandboxes with rules; updates of all of them at once took ${togetherMs.toFixed(0)} ms`;
  return { pairs, notes: [`${note}, ${(togetherMs / median).toFixed(1)} × one`] };
}

/** Other rules than those of the turn before. */
export function rulesOf(turn: number): Rules {
  const name = `turn-${turn % 2}.example.com`;
  const ranges = Array.from({ length: RANGES }, (_, nth) => `93.${184 + (turn % 2)}.${nth * 2}.0/24`);
  return { names: [name, `*.${name}`], ranges };
}

/** The client's request. */
function requestOf({ names, ranges }: Rules) {
  return { allowOut: [...names, ...ranges], denyOut: [ALL] };
}

/** The host's policy. */
function policyOf({ names, ranges }: Rules): EgressPolicy {
  return { allowNames: names, allowRanges: ranges, denyRanges: [ALL], proxy: null };
}
