/**
 * A create for which nothing is ready: of a template that nobody asked to keep ready, so that each is a boot. Alone,
 * and a hundred at once, beside as many bare containers.
 */

import type { Context } from "../../context.ts";
import { interleave, secondTimed, timed } from "../../figures/samples.ts";
import { PlainContainer } from "../../peers/plain-container.ts";
import type { Row } from "../../row.ts";
import { BenchSandbox } from "../../sandboxes/bench-sandbox.ts";
import { sandboxId } from "./create.ts";

const TOGETHER = 100;
const LIFE_SECONDS = 600;
/** Each is a hundred boots, of which every one fills the caches for the next. */
const FEW_ROUNDS = 2;

export const createMiss: Row = {
  name: "create-miss",
  what: "create through the API of a template of which none is ready, one at a time",
  beside: { peer: "crun run of true on the same root", ratio: "cost" },
  run: (context) => measure(context, 1, context.rounds),
};

export const createMissMany: Row = {
  name: "create-miss-100",
  what: "a hundred creates at once of a template of which none is ready, until the last is there",
  beside: { peer: "a hundred crun runs of true at once, on the same root", ratio: "cost" },
  run: (context) => measure(context, TOGETHER, context.long ? context.heavyRounds : FEW_ROUNDS),
};

async function measure(context: Context, count: number, rounds: number) {
  await using template = await ColdTemplate.make(context);
  await using floor = await PlainContainer.make(context);
  const ours = async () => {
    let ids: string[] = [];
    const ms = await timed(async () => {
      const created = Array.from({ length: count }, () => template.create());
      ids = await Promise.all(created);
    });
    await Promise.all(ids.map((id) => context.call("DELETE", `/sandboxes/${id}`)));
    await context.untilReady();
    return ms;
  };
  const peer = () => (count === 1 ? secondTimed(() => floor.run()) : timed(() => floor.runTogether(count)));
  return { pairs: await interleave(rounds, ours, peer, count === 1 ? undefined : 0) };
}

/** A snapshot of files alone: what starts from it boots, and none is kept ready. */
class ColdTemplate implements AsyncDisposable {
  private constructor(
    readonly context: Context,
    readonly id: string,
  ) {}

  static async make(context: Context): Promise<ColdTemplate> {
    await using sandbox = await BenchSandbox.make(context);
    const made = await context.call("POST", `/sandboxes/${sandbox.id}/snapshots`, { memory: false });
    return new ColdTemplate(context, (made as { snapshotID: string }).snapshotID);
  }

  async create(): Promise<string> {
    const request = { templateID: this.id, timeout: LIFE_SECONDS };
    return sandboxId(await this.context.call("POST", "/v2/sandboxes", request));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.call("DELETE", `/templates/${encodeURIComponent(this.id)}`);
  }
}
