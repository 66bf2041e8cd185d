/**
 * Keeps folders open by descriptor while files are written into them. Names are looked up relative to the open folder
 * and symbolic links are never followed, so a process that swaps names meanwhile cannot redirect a write.
 */
import { closeSync, constants, fchmodSync, fchownSync, lstatSync, mkdirSync, openSync } from "node:fs";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { quote } from "../system/quote.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;

/** Owner of new folders and files. */
export interface Ownership {
  uid: number;
  gid: number;
}

export class HeldFolders implements Disposable {
  readonly #names: string[] = [];
  readonly #held: number[] = [];

  /** Symbolic links in `root` are followed. */
  constructor(
    readonly root: string,
    readonly owner: Ownership,
  ) {
    this.#held.push(openSync(root, O_RDONLY | O_DIRECTORY));
  }

  [Symbol.dispose](): void {
    for (const fd of this.#held) closeSync(fd);
  }

  /** Path of `name` in the folder `parts` below the root, valid until the next call. Creates missing folders. */
  pathOf(parts: readonly string[], name: string): string {
    this.enter(parts);
    return this.#inside(name);
  }

  /** Keeps one folder open while others are entered. */
  hold(parts: readonly string[]): Disposable & { pathOf(name: string): string } {
    const fd = openSync(this.pathOf(parts, "."), O_RDONLY | O_DIRECTORY);
    return { pathOf: (name) => `/proc/self/fd/${fd}/${name}`, [Symbol.dispose]: () => closeSync(fd) };
  }

  /** Makes this folder the current one and creates missing ones; `mode` is for the last. */
  enter(parts: readonly string[], mode = 0o755): void {
    let shared = 0;
    while (shared < this.#names.length && this.#names[shared] === parts[shared]) shared++;
    while (this.#names.length > shared) {
      this.#names.pop();
      closeSync(this.#held.pop() as number);
    }
    for (const [at, name] of parts.slice(shared).entries()) {
      this.#push(name, shared + at === parts.length - 1 ? mode : 0o755);
    }
  }

  #push(name: string, mode: number): void {
    const path = this.#inside(name);
    let isNew = true;
    try {
      mkdirSync(path, { mode: 0o700 });
    } catch (thrown) {
      if (systemCode(thrown) !== "EEXIST") throw this.#fault(name, thrown);
      isNew = false;
    }
    let fd: number;
    try {
      fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    } catch (thrown) {
      throw this.#fault(name, thrown);
    }
    this.#names.push(name);
    this.#held.push(fd);
    if (!isNew) return;
    fchownSync(fd, this.owner.uid, this.owner.gid);
    fchmodSync(fd, mode);
  }

  #inside(name: string): string {
    return `/proc/self/fd/${this.#held.at(-1)}/${name}`;
  }

  /** The readable path for messages, without /proc/self/fd. */
  nameOf(name: string): string {
    return [this.root === "/" ? "" : this.root, ...this.#names, name].join("/");
  }

  #fault(name: string, cause: unknown): Fault {
    const where = quote(this.nameOf(name));
    const code = systemCode(cause);
    if (code !== "ENOTDIR" && code !== "ELOOP") return new Fault(400, `${where} cannot be made (${code})`, { cause });
    const isLink = lstatSync(this.#inside(name), { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
    return new Fault(400, `${where} is ${isLink ? "a symbolic link" : "not a folder"}: nothing can be copied into it`, {
      cause,
    });
  }
}
