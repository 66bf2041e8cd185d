/**
 * Which directories are watched, and where each of them is now. The kernel tells of a directory by its number, which
 * stays the same wherever the directory is moved; a directory here knows only its parent and its own name, so moving it
 * moves all below it.
 */
export interface WatchedDirectory {
  readonly wd: number;
  readonly children: Map<string, WatchedDirectory>;
  parent: WatchedDirectory | undefined;
  name: string;
  /** The cookie of a rename of which only the first half was told. */
  leaving: number | undefined;
}

/** Something in a directory: a place in the tree. */
export interface Place {
  directory: WatchedDirectory;
  name: string;
}

/** What became of a directory that was found at some place. */
interface Placement {
  directory: WatchedDirectory;
  isNew: boolean;
  /** Where another look is needed to know who is there. */
  unsettled: Place | undefined;
}

export class WatchedTree {
  readonly root: WatchedDirectory;
  readonly #byNumber = new Map<number, WatchedDirectory>();
  /** By cookie. */
  readonly #leaving = new Map<number, WatchedDirectory>();

  constructor(rootNumber: number) {
    this.root = this.#create(rootNumber, undefined, "");
  }

  get size(): number {
    return this.#byNumber.size;
  }

  find(wd: number): WatchedDirectory | undefined {
    return this.#byNumber.get(wd);
  }

  /** The path from the root, of the directory or of something in it. The root itself is `.`. */
  pathOf(directory: WatchedDirectory, name?: string): string {
    const names = name === undefined ? [] : [name];
    for (let at = directory; at.parent !== undefined; at = at.parent) names.unshift(at.name);
    return names.length === 0 ? "." : names.join("/");
  }

  /** A watched directory is now known to be at this place, new or from elsewhere. */
  place(wd: number, parent: WatchedDirectory, name: string): Placement {
    const directory = this.#byNumber.get(wd);
    if (directory === undefined)
      return { directory: this.#create(wd, parent, name), isNew: true, unsettled: undefined };
    const displaced = parent.children.get(name);
    if (displaced === directory || directory === this.root) return { directory, isNew: false, unsettled: undefined };
    // Into itself: the news of an ancestor's move is still to come.
    if (this.#isWithin(parent, directory)) {
      return { directory, isNew: false, unsettled: { directory: parent, name } };
    }
    const left = { directory: directory.parent ?? this.root, name: directory.name };
    this.#detach(directory);
    this.#attach(directory, parent, name);
    // Two may have changed places: who is where this one was?
    return { directory, isNew: false, unsettled: displaced === undefined ? undefined : left };
  }

  /** The first half of a rename. The directory answers to its old name until the other half, or `settle`, is told. */
  leave(parent: WatchedDirectory, name: string, cookie: number): void {
    const directory = parent.children.get(name);
    if (directory === undefined) return;
    this.#detach(directory);
    directory.leaving = cookie;
    this.#leaving.set(cookie, directory);
  }

  /** The second half of a rename. */
  arrive(cookie: number, parent: WatchedDirectory, name: string): void {
    const directory = this.#leaving.get(cookie);
    if (directory !== undefined) this.place(directory.wd, parent, name);
  }

  /**
   * The kernel ends each rename with a word to the directory itself. One that is still leaving by then has left the
   * tree: it is forgotten with all below it. Returns their numbers.
   */
  settle(directory: WatchedDirectory): number[] {
    return directory.leaving === undefined ? [] : this.forget(directory);
  }

  /** Returns the numbers of the directory and all below it. */
  forget(directory: WatchedDirectory): number[] {
    this.#detach(directory);
    const forgotten: number[] = [];
    const waiting = [directory];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      forgotten.push(next.wd);
      this.#byNumber.delete(next.wd);
      waiting.push(...next.children.values());
    }
    return forgotten;
  }

  #create(wd: number, parent: WatchedDirectory | undefined, name: string): WatchedDirectory {
    const directory = { wd, parent, name, children: new Map(), leaving: undefined };
    this.#byNumber.set(wd, directory);
    parent?.children.set(name, directory);
    return directory;
  }

  #detach(directory: WatchedDirectory): void {
    if (directory.leaving !== undefined) this.#leaving.delete(directory.leaving);
    directory.leaving = undefined;
    const siblings = directory.parent?.children;
    if (siblings?.get(directory.name) === directory) siblings.delete(directory.name);
  }

  #attach(directory: WatchedDirectory, parent: WatchedDirectory, name: string): void {
    directory.parent = parent;
    directory.name = name;
    parent.children.set(name, directory);
  }

  #isWithin(directory: WatchedDirectory, ancestor: WatchedDirectory): boolean {
    for (let at: WatchedDirectory | undefined = directory; at !== undefined; at = at.parent) {
      if (at === ancestor) return true;
    }
    return false;
  }
}
