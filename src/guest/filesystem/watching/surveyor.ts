/**
 * Watches directories recursively. Each directory is opened first, then watched and listed through the open descriptor,
 * so that a concurrent rename of it or of a parent makes no difference. The watch precedes the listing: the kernel
 * reports later changes, and the listing shows earlier ones.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { systemCode } from "../../../base/system-code.ts";
import { logError } from "../../system/log.ts";
import { refuse } from "../../system/rpc-fault.ts";
import type { Inotify } from "./inotify.ts";
import type { Place, WatchedDirectory, WatchedTree } from "./watched-tree.ts";

const WATCHED_DIRECTORIES_MAX = 65_536;
/** Maximum depth. Every level above a new directory stays open while it is surveyed. */
const WATCH_DEPTH_MAX = 256;
/** Maximum files found in a new directory. As many events fill the buffer of a watcher. */
const WATCH_DISCOVERIES_MAX = 65_536;

/** The root may be a link; links below it are not followed. */
const ROOT_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
const OPEN_FLAGS = ROOT_FLAGS | constants.O_NOFOLLOW;
/** Deleted, moved away, or replaced by something else than a directory. */
const GONE: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);
const FORBIDDEN: ReadonlySet<string> = new Set(["EACCES", "EPERM"]);

interface Findings {
  /** New places, parents first. */
  discoveries: Place[];
  /** Places to survey again after more kernel events: a rename there was not reported yet. */
  unsettled: Place[];
}

export class Surveyor {
  /** Absolute path of the tree's root. */
  readonly #base: string;

  constructor(
    private readonly inotify: Inotify,
    private readonly tree: WatchedTree,
    base: string,
  ) {
    this.#base = base.endsWith("/") ? base : `${base}/`;
  }

  /** Watches everything below the root, except below the given absolute paths. */
  async surveyAll(skipped: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    await using root = await open(this.#base, ROOT_FLAGS);
    await this.#lookInto(root, this.tree.root, 0, {
      admits: ({ directory, name }) => {
        signal.throwIfAborted();
        return !skipped.has(this.#pathOf(directory, name));
      },
      found: () => undefined,
      unsettled: () => undefined,
    });
  }

  /** Surveys the place of a new directory, and watches it and everything below it from now on. */
  async survey({ directory, name }: Place): Promise<Findings> {
    const findings: Findings = { discoveries: [], unsettled: [] };
    const visit: Visit = {
      admits: () => true,
      found(place) {
        if (findings.discoveries.push(place) <= WATCH_DISCOVERIES_MAX) return;
        throw refuse(
          "resource_exhausted",
          `a directory with more than ${WATCH_DISCOVERIES_MAX} files below it was moved in, more than can be told at once; watch again`,
        );
      },
      unsettled: (place) => findings.unsettled.push(place),
    };
    await using parent = await this.#open(directory);
    if (parent !== undefined) {
      await this.#enter(parent, { directory, name }, 0, visit);
    } else if (directory !== this.tree.root) {
      // If the root itself moved, a directory above it was renamed, which the kernel never reports.
      await using root = await this.#open(this.tree.root);
      if (root !== undefined) visit.unsettled({ directory, name });
    }
    return findings;
  }

  /** Undefined if the directory is no longer at its known path. */
  async #open(directory: WatchedDirectory): Promise<FileHandle | undefined> {
    const flags = directory === this.tree.root ? ROOT_FLAGS : OPEN_FLAGS;
    const handle = await openUnlessGone(this.#pathOf(directory), flags);
    if (handle === undefined || (await this.#is(handle, directory))) return handle;
    await handle.close();
    return undefined;
  }

  #pathOf(directory: WatchedDirectory, name?: string): string {
    return this.#base + this.tree.pathOf(directory, name);
  }

  /** The kernel identifies directories: a watched one returns its existing number. */
  async #is(handle: FileHandle, directory: WatchedDirectory): Promise<boolean> {
    const wd = await this.#add(handle);
    if (wd !== undefined && this.tree.find(wd) === undefined) this.inotify.remove(wd);
    return wd === directory.wd;
  }

  async #enter(parent: FileHandle, place: Place, depth: number, visit: Visit): Promise<void> {
    const handle = await openUnlessGone(`${pathOf(parent)}/${place.name}`);
    if (handle === undefined) return;
    try {
      const wd = await this.#add(handle);
      if (wd === undefined) return;
      const { directory, isNew, unsettled } = this.tree.place(wd, place.directory, place.name);
      if (unsettled !== undefined) visit.unsettled(unsettled);
      if (isNew) await this.#lookInto(handle, directory, depth, visit);
    } finally {
      await handle.close();
    }
  }

  async #lookInto(handle: FileHandle, directory: WatchedDirectory, depth: number, visit: Visit): Promise<void> {
    const children = await unlessGone(() => readdir(pathOf(handle), { withFileTypes: true }));
    for (const child of children ?? []) {
      const place = { directory, name: child.name };
      if (!visit.admits(place)) continue;
      visit.found(place);
      if (!child.isDirectory()) continue;
      if (depth >= WATCH_DEPTH_MAX) {
        throw refuse(
          "resource_exhausted",
          `directories are watched down to ${WATCH_DEPTH_MAX} levels; watch a lower one`,
        );
      }
      await this.#enter(handle, place, depth + 1, visit);
    }
  }

  async #add(handle: FileHandle): Promise<number | undefined> {
    if (this.tree.size >= WATCHED_DIRECTORIES_MAX) {
      throw refuse(
        "resource_exhausted",
        `one watcher covers at most ${WATCHED_DIRECTORIES_MAX} directories; watch a smaller tree`,
      );
    }
    return await unlessGone(async () => this.inotify.add(pathOf(handle)));
  }
}

/** Callbacks for the entries of a surveyed directory. */
interface Visit {
  admits(place: Place): boolean;
  found(place: Place): void;
  unsettled(place: Place): void;
}

/** Path of the open directory itself, whatever its current name. */
function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`;
}

function openUnlessGone(path: string, flags = OPEN_FLAGS): Promise<FileHandle | undefined> {
  return unlessGone(() => open(path, flags));
}

/** Missing directories are skipped; forbidden ones are skipped and logged. */
async function unlessGone<T>(step: () => Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (thrown) {
    if (GONE.has(systemCode(thrown))) return undefined;
    if (!FORBIDDEN.has(systemCode(thrown))) throw thrown;
    logError("a directory may not be watched", thrown);
    return undefined;
  }
}
