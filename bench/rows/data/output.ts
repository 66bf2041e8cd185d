/** Throughput of a process's output through the server, beside the pipe that it prints into. */
import { Fault } from "../../../src/contract/fault.ts";
import { throughput } from "../../clients/file-transfer.ts";
import { EnvelopeCounter, startStream } from "../../clients/start-stream.ts";
import { PeakGrowth } from "../../figures/resident-memory.ts";
import { interleave, summary, timed } from "../../figures/samples.ts";
import { readThroughPipe } from "../../peers/raw-pipe.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const WARM_UP_ROUNDS = 1;
const MIB = 1024 ** 2;

export const output: Row = {
  name: "output",
  what: "stdout of one process, 128 MiB (512 MiB with --long), through Start as the SDK reads it",
  beside: {
    peer: "the same command on the host, through a pipe to the same reader",
    ratio: "speed",
    bounds: { atLeast: 0.2, aim: 0.4 },
  },
  quick: true,
  async run(context) {
    await using sandbox = await BenchSandbox.make(context);
    const bytes = context.heavyBytes / 2;
    const argv = ["head", "-c", String(bytes), "/dev/zero"];
    const through = (codec: "json" | "proto") => async () => {
      const counter = new EnvelopeCounter();
      for await (const chunk of await startStream(sandbox, argv, { codec })) counter.take(chunk);
      if (!counter.endedWell || counter.bytes < bytes) {
        throw new Fault(500, `the output broke off after ${counter.bytes} bytes of messages`);
      }
    };
    const throughPipe = async () => {
      const came = await readThroughPipe(context, argv);
      if (came !== bytes) throw new Fault(500, `${came} of ${bytes} bytes came through the pipe`);
    };
    const memory = new PeakGrowth(sandbox.pids);
    const binary: number[] = [];
    const pairs = await interleave(
      context.heavyRounds,
      async () => {
        binary.push(await timed(through("proto")));
        return await timed(through("json"));
      },
      () => timed(throughPipe),
      WARM_UP_ROUNDS,
    );
    const { note } = memory.judge(Number.POSITIVE_INFINITY);
    const perSecond = bytes / MIB / (summary(binary.slice(WARM_UP_ROUNDS)).median / 1000);
    return {
      pairs,
      notes: [throughput(pairs, bytes), `in the binary encoding: ${perSecond.toFixed(0)} MiB/s`, note],
    };
  },
};
