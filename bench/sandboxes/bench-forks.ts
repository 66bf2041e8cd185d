/** Forks of a sandbox, for rows that need many: they have its network rules and are cheaper than creates. */
import { Fault } from "../../src/contract/fault.ts";
import type { Context } from "../context.ts";
import type { BenchSandbox } from "./bench-sandbox.ts";

/** Forks per request. */
const TOGETHER = 50;
const LIFE_SECONDS = 1800;

export class BenchForks implements AsyncDisposable {
  readonly ids: string[] = [];

  private constructor(readonly context: Context) {}

  static async make({ context, id }: BenchSandbox, count: number): Promise<BenchForks> {
    const forks = new BenchForks(context);
    try {
      while (forks.ids.length < count) await forks.#add(id, Math.min(TOGETHER, count - forks.ids.length));
      return forks;
    } catch (failure) {
      await forks[Symbol.asyncDispose]();
      throw failure;
    }
  }

  async #add(of: string, count: number): Promise<void> {
    const body = { count, timeout: LIFE_SECONDS };
    const entries = (await this.context.call("POST", `/sandboxes/${of}/fork`, body)) as {
      sandbox?: { sandboxID: string };
      error?: { message: string };
    }[];
    this.ids.push(...entries.flatMap(({ sandbox }) => (sandbox === undefined ? [] : [sandbox.sandboxID])));
    const failed = entries.find(({ error }) => error !== undefined);
    if (failed !== undefined) throw new Fault(500, `a fork of ${of} failed: ${failed.error?.message}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (let at = 0; at < this.ids.length; at += TOGETHER) {
      const some = this.ids.slice(at, at + TOGETHER);
      await Promise.all(some.map((id) => this.context.call("DELETE", `/sandboxes/${id}`)));
    }
    await this.context.untilReady();
  }
}
