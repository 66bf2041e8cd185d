/**
 * The folders of guests, in a cache that several servers may share. Each change of the guest's sources makes a new one;
 * those that nobody needs any more are removed.
 *
 *   guests/NAME              a guest; when it was chosen last is the time of the folder
 *   guests/in-use/NAME.TAG   a mark: the server of this tag needs it. In it, the server's data folder
 *   guests/lock              held for a moment: to choose one, to set and drop marks, to take one away
 *
 * A server marks its guest before it boots anything with it, and drops a mark only when neither its guest, nor a
 * running sandbox, nor a checkpoint of its own has this name. So a mark is there before there is a checkpoint, and a
 * server that does not run needs nobody to look into its data folder.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { Fault } from "../../contract/fault.ts";
import { type Clock, systemClock } from "../../work/clock.ts";
import { Holds } from "../../work/holds.ts";
import { described, stderrLog } from "../../work/log.ts";
import { GUEST_KEPT_MS, GUEST_MARK_KEPT_MS, GUEST_REMOVE_MS, GUESTS_COLLECTED_EVERY_MS } from "../limits.ts";
import { run } from "../system/command.ts";
import { type DataFolder, isServerAt, readText } from "../system/data-folder.ts";
import { waitForLock } from "../system/syscalls.ts";

const NAME = /^[0-9a-f]{16}$/;
const MARK = /^([0-9a-f]{16})\.([a-z0-9]{4})$/;
const UNFINISHED = ".unfinished";
const LEAVING = ".leaving";

/** What this server and the others know of guests that are needed, by any path to them. */
export interface GuestUses {
  /** By sandboxes that run, then by checkpoints: what is being paused runs until its checkpoint is there. */
  own(): Promise<readonly string[]>;
  /** By sandboxes of other servers that run. Their marks say so, too; they outlive a data folder. */
  others(): readonly string[];
  /** This server needs the folder no longer, and must not hold files of it. */
  letGo(folder: string): Promise<void>;
}

export class GuestFolders {
  readonly #places: Places;
  readonly #holds = new Holds();
  #nextAt = Number.NEGATIVE_INFINITY;

  private constructor(
    readonly current: string,
    readonly data: Pick<DataFolder, "path" | "tag">,
    readonly clock: Clock,
    cacheFolder: string,
  ) {
    this.#places = new Places(cacheFolder);
  }

  /** Fault 500 when the guest is not there. From now on nobody removes it. */
  static open(
    cacheFolder: string,
    current: string,
    data: Pick<DataFolder, "path" | "tag">,
    clock: Clock = systemClock,
  ): GuestFolders {
    const guests = new GuestFolders(current, data, clock, cacheFolder);
    if (guests.#places.isGuest(current)) guests.#markCurrent();
    return guests;
  }

  /** Until it is let go, this one is not removed, whatever becomes of the checkpoint that named it. */
  hold(folder: string): Disposable {
    return this.#holds.hold(basename(folder));
  }

  /** Removes those that nobody needs, now and then. Never throws. */
  async collectNowAndThen(uses: GuestUses): Promise<void> {
    if (this.clock.now() < this.#nextAt) return;
    this.#nextAt = this.clock.now() + GUESTS_COLLECTED_EVERY_MS;
    await this.collect(uses).catch((error) =>
      stderrLog.write({ level: "error", event: "old guests could not be removed", error: described(error) }),
    );
  }

  async collect(uses: GuestUses): Promise<void> {
    if (!existsSync(this.#places.guests)) return;
    using watch = this.#holds.watch();
    const named = (await uses.own()).map((folder) => basename(folder));
    // From here on nobody else has a turn until the choice is made.
    const needed = new Set([basename(this.current), ...named, ...watch.seen]);
    const { dropped, leaving } = this.#choose(needed, uses);
    for (const name of dropped) await uses.letGo(join(this.#places.guests, name));
    for (const path of leaving) {
      await run(["rm", "--recursive", "--force", "--one-file-system", "--", path], { timeoutMs: GUEST_REMOVE_MS });
    }
  }

  #markCurrent(): void {
    using _lock = this.#places.lock();
    if (!existsSync(this.current)) {
      throw new Fault(500, `the guest ${this.current} is gone. FIX: start the server again, which makes it anew`);
    }
    this.#mark(basename(this.current));
  }

  /** Sets this server's marks right, and takes away from their names the folders that have to go. */
  #choose(needed: ReadonlySet<string>, uses: GuestUses): { dropped: string[]; leaving: string[] } {
    using _lock = this.#places.lock();
    const there = readdirSync(this.#places.guests);
    for (const name of there) if (NAME.test(name) && needed.has(name)) this.#mark(name);
    const dropped = this.#dropMarks(needed);
    const marked = new Set(this.#places.marks().map(({ name }) => name));
    const old = there.filter((name) => this.#isOld(name) && !marked.has(name));
    const elsewhere = new Set(old.length === 0 ? [] : uses.others().map((folder) => basename(folder)));
    const chosen = old.filter((name) => !elsewhere.has(name)).map((name) => this.#takeAway(name));
    const remains = there.filter((name) => name.endsWith(LEAVING)).map((name) => join(this.#places.guests, name));
    return { dropped, leaving: [...remains, ...chosen] };
  }

  /** A guest, or one of which the making was broken off. */
  #isOld(name: string): boolean {
    if (!NAME.test(name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name)) return false;
    // A set-up may just begin anew what was broken off.
    const found = statSync(join(this.#places.guests, name), { throwIfNoEntry: false });
    return found !== undefined && found.mtimeMs < this.clock.now() - GUEST_KEPT_MS;
  }

  /** What is half removed must not be taken for a guest. */
  #takeAway(name: string): string {
    const leaving = join(this.#places.guests, `${name}.${crypto.randomUUID()}${LEAVING}`);
    renameSync(join(this.#places.guests, name), leaving);
    return leaving;
  }

  #mark(name: string): void {
    const path = this.#places.markOf(name, this.data.tag);
    if (readText(path) !== this.data.path) writeLasting(path, this.data.path);
    const now = new Date(this.clock.now());
    utimesSync(path, now, now);
  }

  /** Its own that are not needed, and those of servers that are gone for good. Answers which were its own. */
  #dropMarks(needed: ReadonlySet<string>): string[] {
    const dropped: string[] = [];
    for (const { name, tag, path } of this.#places.marks()) {
      const isOwn = tag === this.data.tag;
      if (isOwn ? needed.has(name) : this.#isGood(path, tag)) continue;
      rmSync(path, { force: true });
      if (isOwn) dropped.push(name);
    }
    return dropped;
  }

  /** A data folder that is not to be seen may be on a disk that is not mounted now. */
  #isGood(path: string, tag: string): boolean {
    return isServerAt(readText(path) ?? "", tag) || statSync(path).mtimeMs >= this.clock.now() - GUEST_MARK_KEPT_MS;
  }
}

/** Where the guest of this name is, or would be. */
export function guestFolderNamed(cacheFolder: string, name: string): string {
  return join(new Places(cacheFolder).guests, name);
}

/** Whether it is there; if so, it stays for so long that the server which is being started can mark it. */
export function chooseGuest(folder: string, clock: Pick<Clock, "now"> = systemClock): boolean {
  if (!existsSync(folder)) return false;
  using _lock = waitForLock(join(dirname(folder), "lock"));
  // It may have been taken away meanwhile.
  if (!existsSync(folder)) return false;
  const now = new Date(clock.now());
  utimesSync(folder, now, now);
  return true;
}

/** For a server that goes: its checkpoints may still need some. */
export function dropGuestMarks(cacheFolder: string, tag: string, needed: Iterable<string> = []): void {
  const places = new Places(cacheFolder);
  if (!existsSync(places.guests)) return;
  using _lock = places.lock();
  const kept = new Set(Array.from(needed, (folder) => basename(folder)));
  for (const mark of places.marks()) {
    if (mark.tag === tag && !kept.has(mark.name)) rmSync(mark.path, { force: true });
  }
}

class Places {
  readonly guests: string;
  readonly #inUse: string;

  constructor(cacheFolder: string) {
    this.guests = join(cacheFolder, "guests");
    this.#inUse = join(this.guests, "in-use");
  }

  /** Other guests are not ours to remove, and need no mark. */
  isGuest(folder: string): boolean {
    return dirname(folder) === this.guests && NAME.test(basename(folder));
  }

  /** To be let go without waiting for anything: others wait for it with all of their thread. */
  lock(): Disposable {
    mkdirSync(this.#inUse, { recursive: true, mode: 0o755 });
    return waitForLock(join(this.guests, "lock"));
  }

  markOf(name: string, tag: string): string {
    return join(this.#inUse, `${name}.${tag}`);
  }

  marks(): { name: string; tag: string; path: string }[] {
    return readdirSync(this.#inUse).flatMap((file) => {
      const [, name, tag] = MARK.exec(file) ?? [];
      return name === undefined || tag === undefined ? [] : [{ name, tag, path: join(this.#inUse, file) }];
    });
  }
}

/** A checkpoint that outlives a crash of the machine needs a mark that does. */
function writeLasting(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true });
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
