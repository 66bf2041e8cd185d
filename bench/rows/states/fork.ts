/**
 * Latency of forking a running sandbox, beside CRIU's share: one dump, and as many restores with the server's
 * concurrency.
 */
import { RESTORES_AT_ONCE_MAX } from "../../../src/sandbox/starting.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { BenchForks } from "../../sandboxes/bench-forks.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { besideSameImage } from "./same-image.ts";

const BOUNDS = { atLeast: 1.5, aim: 1.2 };
const MANY = 50;
const MANY_ROUNDS_MIN = 3;

export const fork: Row = {
  name: "fork",
  what: "fork of a running sandbox into one",
  beside: { peer: "bare criu dump and one bare restore of the same sandbox", ratio: "cost", bounds: BOUNDS },
  quick: true,
  run: (context) => measure(context, 1, context.rounds),
};

export const forkMany: Row = {
  name: "fork-50",
  what: "fork of a running sandbox into fifty",
  beside: { peer: "bare criu dump and fifty bare restores, at the same parallelism", ratio: "cost", bounds: BOUNDS },
  run: (context) => measure(context, MANY, Math.min(context.heavyRounds, MANY_ROUNDS_MIN)),
};

async function measure(context: Context, count: number, rounds: number) {
  await using criu = await BareCriu.make(context);
  await using sandbox = await BenchSandbox.make(context);
  // It provides the disk for bare CRIU's restores, and the image that the server itself would restore.
  await using written = await Snapshot.make(context, criu, sandbox.id);
  const ours = async () => {
    let forks: BenchForks | undefined;
    const ms = await timed(async () => {
      forks = await BenchForks.make(sandbox, count);
    });
    await forks?.[Symbol.asyncDispose]();
    return ms;
  };
  const sameImage: number[] = [];
  const peer = async () => {
    await using dumped = await criu.dumpTogether([sandbox.id], 1, false);
    const checkpoints = Array<string>(count).fill(written.checkpoint);
    sameImage.push(dumped.ms + (await criu.restoreTogether(checkpoints, RESTORES_AT_ONCE_MAX)));
    return dumped.ms + (await criu.restoreTogether(checkpoints, RESTORES_AT_ONCE_MAX, dumped));
  };
  const pairs = await interleave(rounds, ours, peer, 1);
  return { pairs, notes: [besideSameImage(pairs, sameImage)] };
}

class Snapshot implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly id: string,
    readonly checkpoint: string,
  ) {}

  static async make(context: Context, criu: BareCriu, of: string): Promise<Snapshot> {
    const before = criu.checkpoints();
    const made = (await context.call("POST", `/sandboxes/${of}/snapshots`, {})) as { snapshotID: string };
    const [checkpoint = ""] = criu.checkpoints().filter((name) => !before.includes(name));
    return new Snapshot(context, made.snapshotID, checkpoint);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.call("DELETE", `/templates/${encodeURIComponent(this.id)}`);
  }
}
