/**
 * Translates kernel events to wire events and keeps the watched tree current: new directories are watched, renamed ones
 * keep their watch under the new name, and directories that leave lose it.
 */
import { EventType } from "../../../contract/runtime/wire/filesystem/filesystem_pb.ts";
import { refuse } from "../../system/rpc-fault.ts";
import { IN, type Inotify, type InotifyEvent } from "./inotify.ts";
import type { Surveyor } from "./surveyor.ts";
import type { Place, WatchedDirectory, WatchedTree } from "./watched-tree.ts";

/** An event without its entry. */
export interface Notice {
  name: string;
  type: EventType;
}

/** One kernel event may have several meanings; they are reported in this order. */
const KINDS: readonly (readonly [bits: number, type: EventType])[] = [
  [IN.CREATE | IN.MOVED_TO, EventType.CREATE],
  [IN.MOVED_FROM | IN.MOVE_SELF, EventType.RENAME],
  [IN.ATTRIB, EventType.CHMOD],
  [IN.MODIFY, EventType.WRITE],
  [IN.DELETE | IN.DELETE_SELF | IN.UNMOUNT, EventType.REMOVE],
];
const APPEARED = IN.CREATE | IN.MOVED_TO;
const DISAPPEARED = IN.DELETE | IN.MOVED_FROM;

export class EventTranslator {
  /** Names already reported by a survey, which the kernel may report again. */
  readonly #announced = new Map<WatchedDirectory, Set<string>>();
  /** Directories whose announced names can be dropped once this mark in the queue is reached. */
  readonly #fences = new Map<number, Set<WatchedDirectory>>();
  /** Places to survey again: the kernel has yet to report a rename there or above. */
  readonly #unsettled = new Map<WatchedDirectory, Set<string>>();

  /** `surveyor` is absent if only one directory is watched. */
  constructor(
    private readonly inotify: Inotify,
    private readonly tree: WatchedTree,
    private readonly surveyor: Surveyor | undefined,
  ) {}

  /** Adds to `notices`. If it throws, notices added before remain valid. */
  async report(events: readonly InotifyEvent[], notices: Notice[]): Promise<void> {
    for (const event of events) {
      if ((event.mask & IN.Q_OVERFLOW) !== 0) throw overflow();
      const directory = this.tree.find(event.wd);
      if ((event.mask & IN.IGNORED) !== 0) this.#noteIgnored(event.wd, directory);
      else if (directory === undefined) continue;
      else if (event.name === "") this.#reportItself(directory, event.mask, notices);
      else await this.#reportChild(directory, event, notices);
    }
    if (this.surveyor !== undefined && this.#unsettled.size > 0) await this.#settle(this.surveyor, notices);
  }

  #noteIgnored(wd: number, directory: WatchedDirectory | undefined): void {
    for (const passed of this.#fences.get(wd) ?? []) this.#announced.delete(passed);
    this.#fences.delete(wd);
    if (directory !== undefined) this.tree.forget(directory);
  }

  /** Directories below the root are reported by their parents. */
  #reportItself(directory: WatchedDirectory, mask: number, notices: Notice[]): void {
    const hasMoved = (mask & IN.MOVE_SELF) !== 0;
    if (directory === this.tree.root) {
      for (const type of eventTypes(mask)) notices.push({ name: ".", type });
      // The watched path no longer exists.
      if (hasMoved) this.#release(this.tree.forget(directory));
    } else if (hasMoved) {
      this.#release(this.tree.settle(directory));
    }
  }

  async #reportChild(directory: WatchedDirectory, event: InotifyEvent, notices: Notice[]): Promise<void> {
    const { mask, name, cookie } = event;
    const wasAnnounced = this.#announced.get(directory)?.has(name) === true;
    if ((mask & (APPEARED | DISAPPEARED)) !== 0) this.#announced.get(directory)?.delete(name);
    if ((mask & APPEARED) === 0 || !wasAnnounced) {
      const path = this.tree.pathOf(directory, name);
      for (const type of eventTypes(mask)) notices.push({ name: path, type });
    }
    if ((mask & IN.ISDIR) === 0 || this.surveyor === undefined) return;
    if ((mask & DISAPPEARED) !== 0) this.#unsettled.get(directory)?.delete(name);
    if ((mask & IN.MOVED_FROM) !== 0) this.tree.leave(directory, name, cookie);
    if ((mask & IN.MOVED_TO) !== 0) this.tree.arrive(cookie, directory, name);
    if ((mask & APPEARED) !== 0) await this.#explore(this.surveyor, { directory, name }, notices);
  }

  /** Surveys unsettled places again: new events may have made them reachable, unless more are still to come. */
  async #settle(surveyor: Surveyor, notices: Notice[]): Promise<void> {
    const unsettled = [...this.#unsettled];
    this.#unsettled.clear();
    for (const [directory, names] of unsettled) {
      if (this.tree.find(directory.wd) !== directory) continue;
      for (const name of names) await this.#explore(surveyor, { directory, name }, notices);
    }
  }

  /**
   * Reports what a new directory already contains. The kernel may have the same names in its queue; they are skipped up
   * to a mark placed there now. The client learns them here first, so it misses nothing.
   */
  async #explore(surveyor: Surveyor, place: Place, notices: Notice[]): Promise<void> {
    const { discoveries, unsettled } = await surveyor.survey(place);
    for (const { directory, name } of unsettled) named(this.#unsettled, directory).add(name);
    if (discoveries.length === 0) return;
    const announcing = new Set<WatchedDirectory>();
    for (const found of discoveries) {
      notices.push({ name: this.tree.pathOf(found.directory, found.name), type: EventType.CREATE });
      named(this.#announced, found.directory).add(found.name);
      announcing.add(found.directory);
    }
    this.#fences.set(this.inotify.fence(), announcing);
  }

  #release(numbers: readonly number[]): void {
    for (const wd of numbers) this.inotify.remove(wd);
  }
}

function eventTypes(mask: number): EventType[] {
  return KINDS.filter(([bits]) => (mask & bits) !== 0).map(([, type]) => type);
}

function named(names: Map<WatchedDirectory, Set<string>>, directory: WatchedDirectory): Set<string> {
  const known = names.get(directory) ?? new Set();
  names.set(directory, known);
  return known;
}

function overflow() {
  return refuse(
    "internal",
    "events were lost: more happened at once than the kernel keeps (fs.inotify.max_queued_events); watch again, and look at the directory",
  );
}
