/**
 * Speaks to nft. Two that run at the same time make each other begin again, and hundreds would for minutes: while one
 * runs, what is asked for gathers, and goes together in the next transaction. Only if that is refused is each tried by
 * itself, so that nobody suffers for another's.
 */

import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { run } from "../command.ts";

/** How long nft may take: a table with the rules of hundreds of sandboxes, with long lists, takes half a minute. */
const NFT_MS = scaled(180_000);
/** Changes that go to nft together. */
export const NFT_BATCH_MAX_CHARS = 4 * 1024 * 1024;

interface Asked {
  script: string;
  done: PromiseWithResolvers<void>;
}

type Load = (script: string) => Promise<void>;

export class Firewall {
  readonly #load: Load;
  /** At most one for each slot, and one for the machine's networks. */
  #waiting: Asked[] = [];
  #isBusy = false;

  constructor(load: Load = nft) {
    this.#load = load;
  }

  /** One transaction, or part of one. Whether it came to pass is not known when the time was up. */
  async run(script: string): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ script, done });
    if (!this.#isBusy) void this.#work();
    await done.promise;
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) await this.#together(this.#next());
    this.#isBusy = false;
  }

  /** Those that waited longest; one in any case. */
  #next(): Asked[] {
    let chars = 0;
    const fits = this.#waiting.findIndex(({ script }, index) => {
      chars += script.length;
      return index > 0 && chars > NFT_BATCH_MAX_CHARS;
    });
    return this.#waiting.splice(0, fits < 0 ? this.#waiting.length : fits);
  }

  async #together(asked: readonly Asked[]): Promise<void> {
    try {
      await this.#load(asked.map(({ script }) => script).join(""));
      for (const { done } of asked) done.resolve();
    } catch (error) {
      const isTooSlow = Fault.from(error).status === 503;
      if (asked.length === 1 || isTooSlow) for (const { done } of asked) done.reject(error);
      else for (const each of asked) await this.#together([each]);
    }
  }
}

export async function nft(script: string): Promise<void> {
  await run(["nft", "-f", "-"], { stdin: script, timeoutMs: NFT_MS });
}
