/**
 * Create → first command's output as public leaderboards measure it: a hundred one after another, a hundred that start
 * a moment apart, and a hundred at once, beside podman in the same pattern. The success rate counts as well.
 */
import { Sandbox } from "e2b";
import { Fault } from "../../../src/contract/fault.ts";
import type { Context } from "../../context.ts";
import { inTurns, quantile, timed } from "../../figures/samples.ts";
import { PeerFault } from "../../peers/peer.ts";
import { Podman } from "../../peers/podman.ts";
import type { Outcome, Row } from "../../row.ts";

const COUNT = 100;
const APART_MS = 200;
const PEER = "podman run --rm --network=none in the same pattern, same root, to its output";
const BOUNDS = { atLeast: 5, aim: 10 };
const KILLS_AT_ONCE = 8;

/** Starts all of them as the pattern says and resolves when all are over. */
type Pattern = (starts: readonly (() => Promise<void>)[]) => Promise<unknown>;

const inARow: Pattern = (starts) => inTurns(starts, 1, (start) => start());
const atOnce: Pattern = (starts) => Promise.all(starts.map((start) => start()));
const apart: Pattern = (starts) =>
  Promise.all(
    starts.map(async (start, nth) => {
      await Bun.sleep(nth * APART_MS);
      await start();
    }),
  );

export const PATTERN_ROWS: readonly Row[] = [
  patternRow("in-turn-100", "one after another", inARow),
  patternRow("staggered-100", `started ${APART_MS} ms apart`, apart),
  patternRow("at-once-100", "at once", atOnce),
];

function patternRow(name: string, how: string, pattern: Pattern): Row {
  return {
    name,
    what: `create → first command's output through the SDK, ${COUNT} ${how}`,
    beside: { peer: PEER, ratio: "speed", bounds: BOUNDS },
    needs: "podman",
    run: (context) => compare(context, pattern),
  };
}

async function compare(context: Context, pattern: Pattern): Promise<Outcome> {
  await context.untilReady();
  const sandboxes: Sandbox[] = [];
  // Kill the sandboxes last, so that kills do not compete with the next creates.
  const ours = await led(pattern, () =>
    timed(async () => {
      const sandbox = await Sandbox.create(context.sdk);
      sandboxes.push(sandbox);
      const { stdout } = await sandbox.commands.run("echo hi");
      if (stdout !== "hi\n") throw new Fault(500, `echo hi printed ${JSON.stringify(stdout)}`);
    }),
  );
  await inTurns(sandboxes, KILLS_AT_ONCE, async (sandbox) => void (await sandbox.kill()));
  await context.untilReady();
  const podman = new Podman(context);
  const peer = await led(pattern, async () => (await podman.echo()).outputMs);
  if (ours.times.length === 0) throw new Fault(500, `no create of ${COUNT} succeeded: ${ours.failure}`);
  if (peer.times.length === 0) throw new PeerFault("podman", `none of ${COUNT} succeeded: ${peer.failure}`);
  const broken = ours.times.length < COUNT ? [`${textOf(ours)} (${ours.failure})`] : [];
  return {
    pairs: { ours: ours.times, peer: peer.times },
    notes: [`ours: ${textOf(ours)}; peer: ${textOf(peer)}`],
    broken,
  };
}

interface Led {
  times: number[];
  /** The error of a failed one. */
  failure: string | undefined;
}

/** `once` returns its own time. */
async function led(pattern: Pattern, once: () => Promise<number>): Promise<Led> {
  const found: Led = { times: [], failure: undefined };
  const start = async () => {
    try {
      found.times.push(await once());
    } catch (failure) {
      found.failure = failure instanceof Error ? failure.message : String(failure);
    }
  };
  await pattern(Array.from({ length: COUNT }, () => start));
  return found;
}

function textOf({ times }: Led): string {
  const [p95, p99] = [quantile(times, 0.95), quantile(times, 0.99)].map((ms) => ms.toFixed(0));
  return `p95 ${p95} ms, p99 ${p99} ms, ${times.length} of ${COUNT} succeeded`;
}
