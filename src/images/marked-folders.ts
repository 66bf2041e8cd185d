/**
 * Folders of one kind in a cache that several servers may share. A change of the sources makes a new folder; old ones
 * are removed once no server needs them.
 *
 *   FOLDER/NAME              a folder; the time at which it was last chosen is its own, or that of NAME.chosen
 *   FOLDER/in-use/NAME.TAG   a mark: the server with this tag needs it. Its content is the server's data folder
 *   FOLDER/lock              held briefly to choose a folder, to set and drop marks, to remove a folder
 *
 * A server marks a folder before it uses it, and drops a mark only when nothing of its own needs the folder: no running
 * sandbox, no checkpoint, no build. Marks stay while a server is stopped, so no server has to read another one's data.
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
import { type Clock, systemClock } from "../base/clock.ts";
import { Leases } from "../base/leases.ts";
import { described, stderrLog } from "../base/log.ts";
import { run } from "../system/command.ts";
import { type DataFolder, isServerAt, readText } from "../system/data-folder.ts";
import { waitForLock } from "../system/syscalls.ts";

/**
 * How often unneeded guests and images of the cache folder are collected. How long one stays after it was last chosen:
 * by then the server that chose it has marked it. And how long the mark of a server counts whose data folder cannot be
 * found.
 */
export const CACHE_COLLECTED_EVERY_MS = 3_600_000;
export const CACHE_KEPT_MS = 24 * 3_600_000;
export const CACHE_MARK_KEPT_MS = 30 * 24 * 3_600_000;

const UNFINISHED = ".unfinished";
const LEAVING = ".leaving";

export interface FolderKind {
  /** Relative to the cache folder. */
  folder: string;
  name: RegExp;
  /** Names of the folder of marks and of the lock file; no folder of this kind may have them. */
  marks: string;
  lock: string;
  /** Suffix of the file whose time says when a folder was last chosen. A folder without it is never removed. */
  note?: string;
  /** Suffixes of other files beside a folder, removed after it. */
  besides: readonly string[];
  removeMs: number;
}

/** Folders that this server and others need, by name or by any path. */
export interface FolderUses {
  /** Running sandboxes first, then checkpoints: a sandbox that is being paused runs until its checkpoint exists. */
  own(): Promise<readonly string[]>;
  /** Called only when something could be removed: running sandboxes can outlive a data folder with its marks. */
  others(): readonly string[];
  /** This server no longer needs the folder, and must not hold files of it. */
  release(folder: string): Promise<void>;
}

export class MarkedFolders {
  readonly #places: Places;
  readonly #leases = new Leases();
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(
    readonly kind: FolderKind,
    readonly data: Pick<DataFolder, "path" | "tag">,
    cacheFolder: string,
    readonly clock: Clock = systemClock,
  ) {
    this.#places = new Places(cacheFolder, kind);
  }

  hold(folder: string): Disposable {
    return this.#leases.hold(basename(folder));
  }

  /** Keeps all servers from removing these. Returns the names of missing ones, which get no mark. */
  mark(names: readonly string[]): string[] {
    if (names.length === 0 || !existsSync(this.#places.folder)) return [...names];
    using _lock = this.#places.lock();
    return names.filter((name) => {
      if (!existsSync(join(this.#places.folder, name))) return true;
      this.#mark(name);
      return false;
    });
  }

  /** Removes folders that no server needs, at most once an hour. Never throws. */
  async collectNowAndThen(uses: FolderUses): Promise<void> {
    if (this.clock.now() < this.#nextAt) return;
    this.#nextAt = this.clock.now() + CACHE_COLLECTED_EVERY_MS;
    await this.collect(uses).catch((error) => {
      const event = `old ${this.kind.folder} could not be removed from the cache folder`;
      stderrLog.write({ level: "error", event, error: described(error) });
    });
  }

  async collect(uses: FolderUses): Promise<void> {
    if (!existsSync(this.#places.folder)) return;
    using watch = this.#leases.watch();
    const named = (await uses.own()).map((folder) => basename(folder));
    // No other code runs in this process from here until the choice is made.
    const { dropped, leaving } = this.#choose(new Set([...named, ...watch.seen]), uses);
    for (const name of dropped) await uses.release(join(this.#places.folder, name));
    for (const path of leaving) {
      await run(["rm", "--recursive", "--force", "--one-file-system", "--", path], { timeoutMs: this.kind.removeMs });
    }
  }

  /** Sets and drops this server's marks, and renames the folders to remove. */
  #choose(needed: ReadonlySet<string>, uses: FolderUses): { dropped: string[]; leaving: string[] } {
    using _lock = this.#places.lock();
    const { folder } = this.#places;
    const there = readdirSync(folder);
    for (const name of there) if (this.kind.name.test(name) && needed.has(name)) this.#mark(name);
    const dropped = this.#dropMarks(needed);
    const marked = new Set(this.#places.marks().map(({ name }) => name));
    const old = there.filter((name) => this.#isOld(name) && !marked.has(name));
    const elsewhere = new Set(old.length === 0 ? [] : uses.others().map((other) => basename(other)));
    const chosen = old.filter((name) => !elsewhere.has(name)).map((name) => this.#renameForRemoval(name));
    this.#removeBesides(new Set(there));
    const remains = there.filter((name) => name.endsWith(LEAVING)).map((name) => join(folder, name));
    return { dropped, leaving: [...remains, ...chosen] };
  }

  /** For a folder, or the remains of an interrupted setup of one: a setup that makes it again has just chosen it. */
  #isOld(name: string): boolean {
    const whole = name.endsWith(UNFINISHED) ? name.slice(0, -UNFINISHED.length) : name;
    const { note } = this.kind;
    return this.kind.name.test(whole) && this.#isPast(note === undefined ? name : whole + note) === true;
  }

  /** Undefined: there is no such file. */
  #isPast(name: string): boolean | undefined {
    const found = statSync(join(this.#places.folder, name), { throwIfNoEntry: false });
    return found && found.mtimeMs < this.clock.now() - CACHE_KEPT_MS;
  }

  /** A partly removed folder must not look like a complete one. */
  #renameForRemoval(name: string): string {
    const leaving = join(this.#places.folder, `${name}.${crypto.randomUUID()}${LEAVING}`);
    renameSync(join(this.#places.folder, name), leaving);
    return leaving;
  }

  /** Only for folders that an earlier round removed and that no setup is making again. */
  #removeBesides(there: ReadonlySet<string>): void {
    const { besides, note } = this.kind;
    const endings = note === undefined ? besides : [...besides, note];
    for (const name of there) {
      const ending = endings.find((each) => name.endsWith(each));
      if (ending === undefined) continue;
      const whole = name.slice(0, -ending.length);
      if (!this.kind.name.test(whole) || there.has(whole) || there.has(whole + UNFINISHED)) continue;
      const isFresh = note !== undefined && this.#isPast(whole + note) === false;
      if (!isFresh && this.#isPast(name) === true) rmSync(join(this.#places.folder, name), { force: true });
    }
  }

  #mark(name: string): void {
    const path = this.#places.markOf(name, this.data.tag);
    if (readText(path) !== this.data.path) writeLasting(path, this.data.path);
    touch(path, this.clock);
  }

  /** Drops unneeded marks of this server, and marks of servers that are gone for good. Returns its own dropped ones. */
  #dropMarks(needed: ReadonlySet<string>): string[] {
    const dropped: string[] = [];
    for (const { name, tag, path } of this.#places.marks()) {
      const isOwn = tag === this.data.tag;
      if (isOwn ? needed.has(name) : this.#isGood(path, tag)) continue;
      if (isOwn) this.#places.keepAfterUse(name, this.clock);
      rmSync(path, { force: true });
      if (isOwn) dropped.push(name);
    }
    return dropped;
  }

  /** A missing data folder may be on a disk that is not mounted now. */
  #isGood(path: string, tag: string): boolean {
    return isServerAt(readText(path) ?? "", tag) || statSync(path).mtimeMs >= this.clock.now() - CACHE_MARK_KEPT_MS;
  }
}

/** Whether the folder exists; if so, it stays long enough for the starting server to mark it. */
export function choose(kind: FolderKind, folder: string, clock: Pick<Clock, "now"> = systemClock): boolean {
  if (!existsSync(folder)) return false;
  using _lock = waitForLock(join(dirname(folder), kind.lock));
  // Another server may have removed it meanwhile.
  if (!existsSync(folder)) return false;
  const time = folder + (kind.note ?? "");
  if (existsSync(time)) touch(time, clock);
  return true;
}

/** To be called before a folder with a note is made: the note protects it until it is chosen or marked. */
export function noteMaking(kind: FolderKind, folder: string, clock: Pick<Clock, "now"> = systemClock): void {
  if (kind.note === undefined) return;
  mkdirSync(dirname(folder), { recursive: true, mode: 0o755 });
  using _lock = waitForLock(join(dirname(folder), kind.lock));
  writeFileSync(folder + kind.note, "", { mode: 0o644 });
  touch(folder + kind.note, clock);
}

/** Drops the marks of a server that is removed; `needed`: what its checkpoints still need, by name or path. */
export function dropMarksOf(
  kind: FolderKind,
  cacheFolder: string,
  tag: string,
  needed: Iterable<string> = [],
  clock: Pick<Clock, "now"> = systemClock,
): void {
  const places = new Places(cacheFolder, kind);
  if (!existsSync(places.folder)) return;
  using _lock = places.lock();
  const kept = new Set(Array.from(needed, (folder) => basename(folder)));
  for (const mark of places.marks()) {
    if (mark.tag !== tag || kept.has(mark.name)) continue;
    places.keepAfterUse(mark.name, clock);
    rmSync(mark.path, { force: true });
  }
}

/** Names of the folders that the server with this tag has marked. */
export function markedBy(kind: FolderKind, cacheFolder: string, tag: string): string[] {
  const places = new Places(cacheFolder, kind);
  if (!existsSync(places.folder)) return [];
  using _lock = places.lock();
  return places.marks().flatMap((mark) => (mark.tag === tag ? [mark.name] : []));
}

/** Tags of the servers that need folders of this kind, whether they run or not. */
export function tagsOfMarks(kind: FolderKind, cacheFolder: string): string[] {
  const places = new Places(cacheFolder, kind);
  if (!existsSync(places.folder)) return [];
  using _lock = places.lock();
  return places.marks().map(({ tag }) => tag);
}

class Places {
  readonly folder: string;
  readonly #marks: string;

  constructor(
    cacheFolder: string,
    readonly kind: FolderKind,
  ) {
    this.folder = join(cacheFolder, kind.folder);
    this.#marks = join(this.folder, kind.marks);
  }

  /** Hold it without awaiting anything: other processes block their thread while they wait for it. */
  lock(): Disposable {
    mkdirSync(this.#marks, { recursive: true, mode: 0o755 });
    return waitForLock(join(this.folder, this.kind.lock));
  }

  markOf(name: string, tag: string): string {
    return join(this.#marks, `${name}.${tag}`);
  }

  marks(): { name: string; tag: string; path: string }[] {
    return readdirSync(this.#marks).flatMap((file) => {
      const [, name, tag] = /^(.+)\.([a-z0-9]{4})$/.exec(file) ?? [];
      if (name === undefined || tag === undefined || !this.kind.name.test(name)) return [];
      return [{ name, tag, path: join(this.#marks, file) }];
    });
  }

  /** The time of a note restarts at the end of the last use: a new request may just have begun one. */
  keepAfterUse(name: string, clock: Pick<Clock, "now">): void {
    const note = this.kind.note === undefined ? undefined : join(this.folder, name + this.kind.note);
    if (note !== undefined && existsSync(note)) touch(note, clock);
  }
}

function touch(path: string, clock: Pick<Clock, "now">): void {
  const now = new Date(clock.now());
  utimesSync(path, now, now);
}

/** A checkpoint that survives a crash of the machine needs a mark that does, too. */
function writeLasting(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true });
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
