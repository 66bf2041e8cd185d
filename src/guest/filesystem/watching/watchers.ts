/**
 * Watching directories. This folder tells clients what happens to files, from the kernel's inotify and nothing else: no
 * timers, no helper processes, no second look at what was not announced.
 *
 *   inotify.ts       the kernel's calls          watched-tree.ts   which directory is where
 *   surveyor.ts      directories put under watch event-translator.ts  kernel events become events of the wire
 *   event-buffer.ts  until the client takes them watch.ts          one watch     watch-calls.ts   the calls of clients
 *
 * This file counts all watches, and keeps those that live on between calls.
 */
import { kernelBytes } from "../../system/kernel-random.ts";
import { quote } from "../../system/quote.ts";
import { refuse } from "../../system/rpc-fault.ts";
import type { Accounts } from "../../users/accounts.ts";
import { BufferBudget, EventBuffer } from "./event-buffer.ts";
import { Watch, type WatchOptions } from "./watch.ts";

/** Each has an inotify instance of its own. The first bounds streams and polling watchers together. */
export const WATCHERS_MAX = 256;
export const POLLING_WATCHERS_MAX = 128;

const ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH = 20;

export class Watchers {
  readonly #accounts: Accounts;
  readonly #budget = new BufferBudget();
  readonly #open = new Set<Watch>();
  readonly #polled = new Map<string, Watch>();
  /** Watches that are being made, and those of them that will be polled. */
  #openSoon = 0;
  #polledSoon = 0;

  constructor(accounts: Accounts) {
    this.#accounts = accounts;
  }

  /** Whoever opens a watch hands it to `close` in the end. */
  async open(path: string, options: WatchOptions, signal: AbortSignal): Promise<Watch> {
    if (this.#open.size + this.#openSoon >= WATCHERS_MAX) {
      throw refuse("resource_exhausted", `a sandbox has at most ${WATCHERS_MAX} watchers at a time; stop one first`);
    }
    this.#openSoon++;
    try {
      const watch = await Watch.open(path, options, new EventBuffer(this.#budget), this.#accounts, signal);
      this.#open.add(watch);
      return watch;
    } finally {
      this.#openSoon--;
    }
  }

  /** Safe to call more than once. */
  async close(watch: Watch): Promise<void> {
    this.#open.delete(watch);
    await watch.close();
  }

  /** A watch that lives until it is removed. Returns its id. */
  async openPolled(path: string, options: WatchOptions, signal: AbortSignal): Promise<string> {
    if (this.#polled.size + this.#polledSoon >= POLLING_WATCHERS_MAX) {
      throw refuse(
        "resource_exhausted",
        `a sandbox has at most ${POLLING_WATCHERS_MAX} polling watchers at a time; remove one first`,
      );
    }
    this.#polledSoon++;
    try {
      const id = newId();
      this.#polled.set(id, await this.open(path, options, signal));
      return id;
    } finally {
      this.#polledSoon--;
    }
  }

  polled(id: string): Watch {
    const watch = this.#polled.get(id);
    if (watch === undefined) throw refuse("not_found", `there is no watcher ${quote(id)}`);
    return watch;
  }

  async removePolled(id: string): Promise<void> {
    const watch = this.polled(id);
    this.#polled.delete(id);
    await this.close(watch);
  }
}

function newId(): string {
  // 252 is the largest multiple of the alphabet's size in a byte: letters are equally likely.
  const letters: string[] = [];
  while (letters.length < ID_LENGTH) {
    const usable = kernelBytes(ID_LENGTH).filter((byte) => byte < 252);
    for (const byte of usable) letters.push(ID_LETTERS[byte % ID_LETTERS.length] ?? "");
  }
  return `w${letters.slice(0, ID_LENGTH).join("")}`;
}
