/**
 * The watched directories and their current locations. The kernel identifies a directory by a number that survives
 * moves. Each directory here stores only its parent and its own name, so moving it moves everything below it.
 */
export interface WatchedDirectory {
  readonly wd: number;
  readonly children: Map<string, WatchedDirectory>;
  parent: WatchedDirectory | undefined;
  name: string;
  /** The cookie of a rename whose second half is still missing. */
  leaving: number | undefined;
}

/** A name in a directory of the tree. */
export interface Place {
  directory: WatchedDirectory;
  name: string;
}

/** Result of placing a directory in the tree. */
interface Placement {
  directory: WatchedDirectory;
  isNew: boolean;
  /** A place to survey again, because its occupant is unknown. */
  unsettled: Place | undefined;
}

export class WatchedTree {
  readonly root: WatchedDirectory;
  readonly #byNumber = new Map<number, WatchedDirectory>();
  /** Directories in the middle of a rename, by cookie. */
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

  /** Path from the root, of the directory or of a name in it. The root itself is `.`. */
  pathOf(directory: WatchedDirectory, name?: string): string {
    const names = name === undefined ? [] : [name];
    for (let at = directory; at.parent !== undefined; at = at.parent) names.unshift(at.name);
    return names.length === 0 ? "." : names.join("/");
  }

  /** Records that a watched directory is at this place, whether new or moved. */
  place(wd: number, parent: WatchedDirectory, name: string): Placement {
    const directory = this.#byNumber.get(wd);
    if (directory === undefined)
      return { directory: this.#create(wd, parent, name), isNew: true, unsettled: undefined };
    const displaced = parent.children.get(name);
    if (displaced === directory || directory === this.root) return { directory, isNew: false, unsettled: undefined };
    // Below itself: the event of an ancestor's move is still to come.
    if (this.#isWithin(parent, directory)) {
      return { directory, isNew: false, unsettled: { directory: parent, name } };
    }
    const left = { directory: directory.parent ?? this.root, name: directory.name };
    this.#detach(directory);
    this.#attach(directory, parent, name);
    // Two directories may have been exchanged, so the former place must be surveyed.
    return { directory, isNew: false, unsettled: displaced === undefined ? undefined : left };
  }

  /** First half of a rename. The directory keeps its old name until `arrive` or `settle`. */
  leave(parent: WatchedDirectory, name: string, cookie: number): void {
    const directory = parent.children.get(name);
    if (directory === undefined) return;
    this.#detach(directory);
    directory.leaving = cookie;
    this.#leaving.set(cookie, directory);
  }

  /** Second half of a rename. */
  arrive(cookie: number, parent: WatchedDirectory, name: string): void {
    const directory = this.#leaving.get(cookie);
    if (directory !== undefined) this.place(directory.wd, parent, name);
  }

  /**
   * The kernel ends each rename with an event for the directory itself. A directory still leaving at that point has
   * left the tree and is forgotten with everything below it. Returns their numbers.
   */
  settle(directory: WatchedDirectory): number[] {
    return directory.leaving === undefined ? [] : this.forget(directory);
  }

  /** Returns the numbers of the directory and everything below it. */
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
