/** One watched directory, alone or recursive: reads kernel events until it ends, and buffers them. */
import { stat } from "node:fs/promises";
import { systemCode } from "../../../base/system-code.ts";
import { Fault } from "../../../contract/fault.ts";
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { type Entry, readEntry } from "../../file-tree/entry.ts";
import { describe } from "../../file-tree/tree.ts";
import { LIST_STAT_PARALLEL } from "../../limits.ts";
import { logError } from "../../system/log.ts";
import { quote } from "../../system/quote.ts";
import { refuse } from "../../system/rpc-fault.ts";
import type { Accounts } from "../../users/accounts.ts";
import type { EventBuffer } from "./event-buffer.ts";
import { EventTranslator, type Notice } from "./event-translator.ts";
import { IN, Inotify } from "./inotify.ts";
import { mountsLeftOut, refuseNetworkMount } from "./mounts.ts";
import { Surveyor } from "./surveyor.ts";
import { WatchedTree } from "./watched-tree.ts";

/** How long `GetWatcherEvents` waits for events that the kernel has queued and the daemon has not read. */
const WATCHER_CATCH_UP_MS = 2_000;

export interface WatchOptions {
  recursive: boolean;
  includeEntry: boolean;
  allowNetworkMounts: boolean;
}

export class Watch {
  /** Callers of `catchUp`, by the number of their mark in the kernel's queue. */
  readonly #catchingUp = new Map<number, () => void>();
  #closed = false;
  #ended = false;

  private constructor(
    private readonly base: string,
    private readonly inotify: Inotify,
    readonly events: EventBuffer,
    private readonly accounts: Accounts | undefined,
  ) {}

  /** Settles when every directory is watched. `signal` aborts the attempt, not the watch. */
  static async open(
    base: string,
    options: WatchOptions,
    events: EventBuffer,
    accounts: Accounts,
    signal: AbortSignal,
  ): Promise<Watch> {
    const top = await describe(base, () => stat(base));
    if (!top.isDirectory()) throw refuse("invalid_argument", `${quote(base)} is not a directory`);
    if (!options.allowNetworkMounts) await refuseNetworkMount(base);
    let inotify: Inotify | undefined;
    try {
      inotify = new Inotify();
      const tree = new WatchedTree(inotify.add(base));
      const surveyor = options.recursive ? new Surveyor(inotify, tree, base) : undefined;
      await surveyor?.surveyAll(await mountsLeftOut(base, options.allowNetworkMounts), signal);
      signal.throwIfAborted();
      const watch = new Watch(base, inotify, events, options.includeEntry ? accounts : undefined);
      void watch.#follow(new EventTranslator(inotify, tree, surveyor));
      return watch;
    } catch (thrown) {
      await inotify?.close();
      throw explained(thrown, base);
    }
  }

  /** Settles when `events` holds all from before this call, when the watch ends, or after `withinMs`. */
  async catchUp(withinMs = WATCHER_CATCH_UP_MS): Promise<void> {
    const mark = this.#mark();
    if (mark === undefined) return;
    const reached = Promise.withResolvers<void>();
    const timer = setTimeout(reached.resolve, withinMs);
    this.#catchingUp.set(mark, reached.resolve);
    try {
      await reached.promise;
    } finally {
      clearTimeout(timer);
      this.#catchingUp.delete(mark);
    }
  }

  /** Releases all kernel resources. Safe to call more than once. */
  async close(): Promise<void> {
    this.#closed = true;
    this.events.close();
    await this.#end();
  }

  /** Undefined if the watch has ended or the kernel has no room for another mark. */
  #mark(): number | undefined {
    if (this.#ended) return undefined;
    try {
      return this.inotify.fence();
    } catch (thrown) {
      logError("the queue of a watcher could not be marked", thrown);
      return undefined;
    }
  }

  async #end(): Promise<void> {
    this.#ended = true;
    for (const reached of this.#catchingUp.values()) reached();
    await this.inotify.close();
  }

  async #follow(translator: EventTranslator): Promise<void> {
    try {
      for await (const batch of this.inotify.batches()) {
        const notices: Notice[] = [];
        try {
          await translator.report(batch, notices);
        } finally {
          await this.#deliver(notices);
        }
        for (const { wd, mask } of batch) if ((mask & IN.IGNORED) !== 0) this.#catchingUp.get(wd)?.();
      }
    } catch (thrown) {
      if (this.#closed) return;
      this.events.fail(Fault.from(explained(thrown, this.base)));
      await this.#end();
    }
  }

  async #deliver(notices: readonly Notice[]): Promise<void> {
    for (let at = 0; at < notices.length; at += LIST_STAT_PARALLEL) {
      const some = notices.slice(at, at + LIST_STAT_PARALLEL);
      const entries = await this.#entries(some);
      for (const notice of some) {
        const entry = leavesEntry(notice.type) ? entries.get(notice.name) : undefined;
        this.events.add(entry === undefined ? notice : { ...notice, entry });
      }
    }
  }

  /** Current entries for the names in the notices. */
  async #entries(notices: readonly Notice[]): Promise<Map<string, Entry>> {
    const entries = new Map<string, Entry>();
    const accounts = this.accounts;
    if (accounts === undefined) return entries;
    const names = new Set(notices.filter(({ type }) => leavesEntry(type)).map(({ name }) => name));
    const look = async (name: string) => {
      const entry = await entryUnlessGone(name === "." ? this.base : joined(this.base, name), accounts);
      if (entry !== undefined) entries.set(name, entry);
    };
    await Promise.all([...names].map(look));
    return entries;
  }
}

async function entryUnlessGone(path: string, accounts: Accounts): Promise<Entry | undefined> {
  try {
    return await readEntry(path, accounts);
  } catch (thrown) {
    // Deleted again or unreadable: the event is sent without its entry.
    if (systemCode(thrown) === "") logError("an entry could not be described", thrown);
    return undefined;
  }
}

function joined(base: string, name: string): string {
  return base.endsWith("/") ? base + name : `${base}/${name}`;
}

/** Whether a file may exist after an event of this type. */
function leavesEntry(type: EventType): boolean {
  return type === EventType.CREATE || type === EventType.WRITE || type === EventType.CHMOD;
}

const EXHAUSTED: ReadonlyMap<string, string> = new Map([
  ["ENOSPC", "the kernel's limit of watched directories is reached (fs.inotify.max_user_watches)"],
  ["EMFILE", "the limit of watchers (fs.inotify.max_user_instances) or of open files is reached"],
  ["ENFILE", "the machine's limit of open files is reached"],
  ["ENOMEM", "the kernel has no memory left for another watch"],
]);

/** Translates system errors to faults; returns everything else unchanged. */
function explained(thrown: unknown, base: string): unknown {
  const code = systemCode(thrown);
  if (code === "" || thrown instanceof Fault) return thrown;
  const path = quote(base);
  const exhausted = EXHAUSTED.get(code);
  if (exhausted !== undefined) {
    return refuse("resource_exhausted", `cannot watch ${path}: ${exhausted}; remove a watcher or watch less`, thrown);
  }
  if (code === "ENOENT" || code === "ENOTDIR") return refuse("not_found", `there is nothing at ${path}`, thrown);
  return refuse("internal", `cannot watch ${path}: ${code}`, thrown);
}
