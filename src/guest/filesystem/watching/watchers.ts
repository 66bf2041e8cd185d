/**
 * Watches directories. This folder reports file events from the kernel's inotify and nothing else: it uses no timers,
 * no helper processes, and never polls for changes that the kernel did not announce.
 *
 *   inotify.ts       kernel calls                  watched-tree.ts      the location of each directory
 *   surveyor.ts      watches directories           event-translator.ts  kernel events to wire events
 *   event-buffer.ts  events waiting for a client   watch.ts             one watch
 *   watch-calls.ts   RPC calls
 *
 * This file counts all watches and keeps those that live between calls.
 */
import { kernelRandomBytes } from "../../../base/kernel-random.ts";
import { ID_LETTERS } from "../../../contract/ids.ts";
import { quote } from "../../system/quote.ts";
import { refuse } from "../../system/rpc-fault.ts";
import type { Accounts } from "../../users/accounts.ts";
import { EventBuffer } from "./event-buffer.ts";
import { Watch, type WatchOptions } from "./watch.ts";

/** Each watcher has its own inotify instance. WATCHERS_MAX bounds streams and polling watchers together. */
export const WATCHERS_MAX = 256;
export const POLLING_WATCHERS_MAX = 128;

const ID_LENGTH = 20;

export class Watchers {
  readonly #open = new Set<Watch>();
  readonly #polled = new Map<string, Watch>();
  /** Watches being opened, and how many of them will be polled. */
  #openSoon = 0;
  #polledSoon = 0;

  constructor(private readonly accounts: Accounts) {}

  /** The caller must pass the watch to `close`. */
  async open(path: string, options: WatchOptions, signal: AbortSignal): Promise<Watch> {
    if (this.#open.size + this.#openSoon >= WATCHERS_MAX) {
      throw refuse("resource_exhausted", `a sandbox has at most ${WATCHERS_MAX} watchers at a time; stop one first`);
    }
    this.#openSoon++;
    try {
      const watch = await Watch.open(path, options, new EventBuffer(), this.accounts, signal);
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

  /** Opens a watch that lives until it is removed. Returns its id. */
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
  // 252 is the largest multiple of the alphabet's size within a byte, so all letters are equally likely.
  const letters: string[] = [];
  while (letters.length < ID_LENGTH) {
    const usable = kernelRandomBytes(ID_LENGTH).filter((byte) => byte < 252);
    for (const byte of usable) letters.push(ID_LETTERS[byte % ID_LETTERS.length] ?? "");
  }
  return `w${letters.slice(0, ID_LENGTH).join("")}`;
}
