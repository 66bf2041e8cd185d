/**
 * Runs nft. Concurrent runs make each other restart, and hundreds would do so for minutes. So while one runs, requests
 * queue up and go together in the next transaction. Only if that fails is each tried separately, so that no caller
 * fails because of another.
 */
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { run } from "../command.ts";

/** Timeout of nft: a table with long lists for hundreds of sandboxes takes half a minute. */
const NFT_MS = scaled(180_000);
export const NFT_BATCH_MAX_CHARS = 4 * 1024 * 1024;

interface QueuedScript {
  script: string;
  done: PromiseWithResolvers<void>;
}

type Load = (script: string) => Promise<void>;

export class Firewall {
  /** At most one entry per slot, and one for the machine's networks. */
  #waiting: QueuedScript[] = [];
  #isBusy = false;

  constructor(private readonly load: Load = nft) {}

  /** Runs a transaction, or part of one. After a timeout it is unknown whether it took effect. */
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

  /** Takes the longest waiting requests, at least one. */
  #next(): QueuedScript[] {
    let chars = 0;
    const fits = this.#waiting.findIndex(({ script }, index) => {
      chars += script.length;
      return index > 0 && chars > NFT_BATCH_MAX_CHARS;
    });
    return this.#waiting.splice(0, fits < 0 ? this.#waiting.length : fits);
  }

  async #together(queued: readonly QueuedScript[]): Promise<void> {
    try {
      await this.load(queued.map(({ script }) => script).join(""));
      for (const { done } of queued) done.resolve();
    } catch (error) {
      const isTooSlow = Fault.from(error).status === 503;
      if (queued.length === 1 || isTooSlow) for (const { done } of queued) done.reject(error);
      else for (const each of queued) await this.#together([each]);
    }
  }
}

export async function nft(script: string): Promise<void> {
  await run(["nft", "-f", "-"], { stdin: script, timeoutMs: NFT_MS });
}
