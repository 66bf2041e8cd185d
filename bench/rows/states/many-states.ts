/** Many concurrent pauses and resumes, beside CRIU on the same sandboxes with the same concurrency. */
import { CHECKPOINTS_AT_ONCE_MAX } from "../../../src/sandbox/checkpointing.ts";
import { RESTORES_AT_ONCE_MAX } from "../../../src/sandbox/starting.ts";
import type { Context } from "../../context.ts";
import { type Pairs, timed } from "../../figures/samples.ts";
import { BareCriu } from "../../peers/bare-criu.ts";
import type { Row } from "../../row.ts";
import { createTogether, killAll } from "../../sandboxes/creating.ts";
import { besideSameImage } from "./same-image.ts";

const COUNT = 30;
const ROUNDS = 2;
const LIFE_SECONDS = 1800;

interface Moments {
  pauses: Pairs;
  resumes: Pairs;
  /** Times of bare CRIU with the server's images. */
  sameImages: number[];
}

const led = new WeakMap<Context, Promise<Moments>>();

export const pauses: Row = {
  name: "pauses-30",
  what: `${COUNT} pauses of idle sandboxes at once, until the last is paused`,
  beside: {
    peer: "bare criu dump of the same sandboxes and fsync, at the same parallelism",
    ratio: "cost",
    bounds: { atLeast: 1.4, aim: 1.2 },
  },
  run: async (context) => ({ pairs: (await momentsOf(context)).pauses }),
};

export const resumes: Row = {
  name: "resumes-30",
  what: `${COUNT} resumes of idle sandboxes at once, until the runtime of the last has answered`,
  beside: {
    peer: "bare criu restore of its own dumps of the same sandboxes, at the same parallelism",
    ratio: "cost",
    bounds: { atLeast: 1.6, aim: 1.2 },
  },
  run: async (context) => {
    const { resumes: pairs, sameImages } = await momentsOf(context);
    return { pairs, notes: [besideSameImage(pairs, sameImages)] };
  },
};

/** Both rows share the same measurement. */
async function momentsOf(context: Context): Promise<Moments> {
  const moments = led.get(context) ?? measure(context);
  led.set(context, moments);
  return await moments;
}

async function measure(context: Context): Promise<Moments> {
  await using criu = await BareCriu.make(context);
  const moments: Moments = { pauses: { ours: [], peer: [] }, resumes: { ours: [], peer: [] }, sameImages: [] };
  await context.untilReady();
  const ids = await createTogether(context, COUNT);
  const together = (path: (id: string) => string, body: unknown) =>
    timed(() => Promise.all(ids.map((id) => context.call("POST", path(id), body))));
  try {
    for (let round = -1; round < (context.long ? context.heavyRounds : ROUNDS); round++) {
      await context.untilReady();
      await using dumped = await criu.dumpTogether(ids, CHECKPOINTS_AT_ONCE_MAX);
      const before = criu.checkpoints();
      const pauseMs = await together((id) => `/sandboxes/${id}/pause`, {});
      const written = criu.checkpoints().filter((name) => !before.includes(name));
      const sameImagesMs = await criu.restoreTogether(written, RESTORES_AT_ONCE_MAX);
      const restoreMs = await criu.restoreTogether(written, RESTORES_AT_ONCE_MAX, dumped);
      const resumeMs = await together((id) => `/v2/sandboxes/${id}/connect`, { timeout: LIFE_SECONDS });
      if (round < 0) continue;
      moments.pauses.peer.push(dumped.ms);
      moments.pauses.ours.push(pauseMs);
      moments.resumes.peer.push(restoreMs);
      moments.resumes.ours.push(resumeMs);
      moments.sameImages.push(sameImagesMs);
    }
    return moments;
  } finally {
    await killAll(context, ids);
  }
}
