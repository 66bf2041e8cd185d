/** The cost of a pause beyond CRIU's and the disk's work, for an idle sandbox and for one full of memory. */
import { startStream } from "../../clients/start-stream.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";

const DIRTY_MIB = 256;

export const pause: Row = {
  name: "pause",
  what: "pause of an idle sandbox through the API",
  beside: { peer: "bare criu dump of a similar sandbox, and fsync", ratio: "cost", bounds: { atLeast: 1.4, aim: 1.1 } },
  quick: true,
  run: (context) => compare(context, context.rounds, async () => undefined),
};

export const pauseDirty: Row = {
  name: "pause-dirty",
  what: "pause of a sandbox with 256 MiB of its own memory",
  beside: { peer: "bare criu dump of a similar sandbox, and fsync", ratio: "cost", bounds: { atLeast: 1.4, aim: 1.1 } },
  run: (context) => compare(context, context.heavyRounds, (sandbox) => holdMemory(sandbox, DIRTY_MIB)),
};

async function compare(context: Context, rounds: number, prepare: (sandbox: BenchSandbox) => Promise<void>) {
  await using criu = await BareCriu.make(context);
  const withSandbox = async (measure: (sandbox: BenchSandbox) => Promise<number>) => {
    await using sandbox = await BenchSandbox.make(context);
    await prepare(sandbox);
    return await measure(sandbox);
  };
  const ours = () => withSandbox(({ id }) => timed(() => context.call("POST", `/sandboxes/${id}/pause`, {})));
  const peer = () => withSandbox(({ id }) => criu.dump(id));
  return { pairs: await interleave(rounds, ours, peer) };
}

/** A process in the sandbox holds this much random memory. */
export async function holdMemory(sandbox: BenchSandbox, mib: number): Promise<void> {
  const hold = `import os, time
held = bytearray(os.urandom(1 << 20)) * ${mib}
print("held", flush=True)
time.sleep(3600)`;
  const stream = await startStream(sandbox, ["/usr/bin/python3", "-c", hold], {});
  const reader = stream.getReader();
  let text = "";
  while (!text.includes(btoa("held\n"))) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`the process that was to hold memory ended: ${text}`);
    text += new TextDecoder().decode(value);
  }
  await reader.cancel();
}
