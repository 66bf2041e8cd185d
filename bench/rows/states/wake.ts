/**
 * Latency of a request that resumes a paused sandbox, and of a resume soon after the pause, when the checkpoint has not
 * been read since: both beside CRIU's work for the same sandbox.
 */
import { startStream } from "../../clients/start-stream.ts";
import type { Context } from "../../context.ts";
import { interleave, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { besideSameImage } from "./same-image.ts";

const PORT = 8000;
const SERVE = ["/usr/bin/python3", "-m", "http.server", String(PORT), "--directory", "/srv"];
const BOUNDS = { atLeast: 1.6, aim: 1.2 };
const ANSWERS_MS = 20_000;
const ASK_MS = 20;
/** Time between a pause and its resume. */
const SOON_MS = 3_000;
const SOON_LONG_MS = 30_000;

export const wake: Row = {
  name: "wake",
  what: "first byte of a response from a service in a paused sandbox, which resumes",
  beside: { peer: "bare criu restore of its own dump of the same sandbox", ratio: "cost", bounds: BOUNDS },
  quick: true,
  async run(context) {
    await using criu = await BareCriu.make(context);
    await using sandbox = await BenchSandbox.make(context, { wakes: true });
    await serve(sandbox);
    const sameImage: number[] = [];
    let peerMs = 0;
    const ours = async () => {
      await using dumped = await criu.dumpTogether([sandbox.id], 1);
      const name = await pausedAs(context, sandbox, criu);
      sameImage.push(await criu.restore(name));
      peerMs = await criu.restore(name, dumped);
      return await timed(() => ask(sandbox));
    };
    const pairs = await interleave(context.rounds, ours, async () => peerMs);
    return { pairs, notes: [besideSameImage(pairs, sameImage)] };
  },
};

export const resumeSoon: Row = {
  name: "resume-soon",
  what: "resume of an idle sandbox 3 s after its pause (30 s with --long), its image not read since",
  beside: {
    peer: "bare criu restore of its own dump of the same sandbox, after the same time",
    ratio: "cost",
    bounds: BOUNDS,
  },
  async run(context) {
    await using criu = await BareCriu.make(context);
    await using sandbox = await BenchSandbox.make(context);
    const resume = () => context.call("POST", `/v2/sandboxes/${sandbox.id}/connect`, { timeout: 1800 });
    const paused = async () => {
      const name = await pausedAs(context, sandbox, criu);
      await Bun.sleep(context.long ? SOON_LONG_MS : SOON_MS);
      return name;
    };
    const ours = async () => {
      await paused();
      return await timed(resume);
    };
    const peer = async () => {
      await using dumped = await criu.dumpTogether([sandbox.id], 1);
      const ms = await criu.restore(await paused(), dumped);
      await resume();
      return ms;
    };
    return { pairs: await interleave(context.heavyRounds, ours, peer, 1) };
  },
};

/** Pauses the sandbox and returns the name of the checkpoint. */
async function pausedAs(context: Context, { id }: BenchSandbox, criu: BareCriu): Promise<string> {
  const before = criu.checkpoints();
  await context.call("POST", `/sandboxes/${id}/pause`, {});
  return criu.checkpoints().find((name) => !before.includes(name)) ?? "";
}

/** Starts the server, which continues when its output is not read. */
async function serve(sandbox: BenchSandbox): Promise<void> {
  const stream = await startStream(sandbox, SERVE, {});
  const deadline = performance.now() + ANSWERS_MS;
  while (
    !(await ask(sandbox).then(
      () => true,
      () => false,
    ))
  ) {
    if (performance.now() > deadline) throw new Error(`${SERVE.join(" ")} does not answer`);
    await Bun.sleep(ASK_MS);
  }
  await stream.cancel();
}

/** Resolves with the head of the response. */
async function ask({ context, id }: BenchSandbox): Promise<void> {
  const headers = { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(PORT) };
  const response = await fetch(context.sdk.sandboxUrl, { headers, signal: AbortSignal.timeout(ANSWERS_MS) });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`the service answered with ${response.status}`);
}
