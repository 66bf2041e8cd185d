/**
 * Decides for each entry of an archive, before anything is written, where it goes below the target or why the whole
 * archive is rejected. Names come from the client and are relative to its build context.
 */
import { NAME_MAX_BYTES, PATH_MAX_BYTES } from "../limits.ts";
import { quote } from "../system/quote.ts";
import { type EntryHeader, refused } from "./archive.ts";

/** Limits of an archive for a template: entries, total bytes of names, nesting depth of folders. */
export const UNPACK_ENTRIES_MAX = 300_000;
const UNPACK_NAMES_MAX_BYTES = 64 * 1024 * 1024;
export const UNPACK_DEPTH_MAX = 256;

/** What marks a path part as a pattern for any client that matches patterns. */
const PATTERN = /[*?[\]{}]|[@!+]\(/;
/** Folder name that GNU tar uses for sparse files. */
const SPARSE_FOLDER = /^GNUSparseFile\.\d+$/;

export type Placed =
  | { kind: "folder"; path: string[] }
  | { kind: "file"; path: string[]; bytes: number }
  | { kind: "symlink"; path: string[]; target: string }
  /** A hard link to an earlier file. */
  | { kind: "link"; path: string[]; of: string[] };

export class CopyPlan {
  /** The path that every entry must equal or lie below. */
  readonly #base: string[];
  readonly #isPattern: boolean;
  readonly #kinds = new Map<string, Placed["kind"]>();
  /** Name of the entry that the source names, if it is not a folder. */
  #single: string | undefined;
  #entries = 0;
  #nameBytes = 0;
  /** Total size of all files. */
  bytes = 0;

  constructor(readonly source: string) {
    const parts = partsOf(source);
    if (parts.includes("..")) throw refused(`its source ${quote(source)} leads out of the context`);
    const pattern = parts.findIndex((part) => PATTERN.test(part));
    this.#isPattern = pattern !== -1;
    this.#base = this.#isPattern ? parts.slice(0, pattern) : parts;
  }

  /** Checks and records an entry in the first pass. */
  add(header: EntryHeader): void {
    if (++this.#entries > UNPACK_ENTRIES_MAX) throw refused(`it has more than ${UNPACK_ENTRIES_MAX} entries`);
    const placed = this.place(header);
    if (placed === undefined) return;
    const path = placed.path.join("/");
    this.#nameBytes += path.length;
    if (this.#nameBytes > UNPACK_NAMES_MAX_BYTES) {
      throw refused(`the names in it have more than ${UNPACK_NAMES_MAX_BYTES} bytes together`);
    }
    if (placed.kind === "link" && this.#kinds.get(placed.of.join("/")) !== "file") {
      throw refused(`${quote(header.name)} is a hard link to ${quote(header.linkname ?? "")}, no file before it`);
    }
    // A hard link counts as a file, so that later links may refer to it.
    this.#note(path, placed.kind === "link" ? "file" : placed.kind, header.name);
    for (let depth = placed.path.length - 1; depth >= 0; depth--) {
      if (this.#note(placed.path.slice(0, depth).join("/"), "folder", header.name)) break;
    }
    if (placed.kind === "file") this.bytes += placed.bytes;
    if (placed.path.length === 0 && placed.kind !== "folder") this.#single = this.#base.at(-1) ?? "";
  }

  /** Once all entries were added: the name of the only file to copy; undefined for the contents of a folder. */
  get single(): string | undefined {
    if (this.#single !== undefined) return this.#single;
    // The folder above a pattern is not a match itself, so it is left out.
    const [only, ...others] = [...this.#kinds].filter(([path]) => path !== "").slice(0, 2);
    const isOneMatch = this.#isPattern && others.length === 0 && only?.[1] !== "folder";
    return isOneMatch ? only?.[0] : undefined;
  }

  requireSource(): void {
    if (this.#kinds.size > 0 || this.#base.length === 0) return;
    throw refused(`there is no ${quote(this.source)} in it`);
  }

  /** The place below the target; undefined for a folder that only leads to the source. */
  place(header: EntryHeader): Placed | undefined {
    const name = requireName(header.name);
    const path = this.#belowBase(name, header);
    if (path === undefined) return undefined;
    const isFolder = header.type === "directory" || (header.type === "file" && header.name.endsWith("/"));
    if (isFolder) return { kind: "folder", path };
    switch (header.type) {
      case "file":
      case "contiguous-file":
        requireWholeFile(header);
        return { kind: "file", path, bytes: header.size };
      case "symlink":
        return { kind: "symlink", path, target: requireLinkTarget(header) };
      case "link":
        return { kind: "link", path, of: this.#linked(header) };
      default:
        throw refused(`${quote(header.name)} is ${KINDS[header.type ?? ""] ?? "of a kind that cannot be copied"}`);
    }
  }

  #linked(header: EntryHeader): string[] {
    const of = this.#belowBase(requireName(header.linkname ?? ""), header);
    if (of !== undefined) return of;
    throw refused(`${quote(header.name)} is a hard link to ${quote(header.linkname ?? "")}, outside of the source`);
  }

  #belowBase(name: string[], header: EntryHeader): string[] | undefined {
    const shared = name.findIndex((part, at) => part !== this.#base[at]);
    const isBelow = shared === -1 ? name.length >= this.#base.length : shared >= this.#base.length;
    if (isBelow) {
      const path = name.slice(this.#base.length);
      return path.length === 0 && this.#isPattern ? undefined : path;
    }
    if (shared === -1 && header.type === "directory") return undefined;
    throw refused(`${quote(header.name)} is not part of ${quote(this.source)}`);
  }

  /** Whether the path was known. It must keep its kind, so that no link redirects later entries. */
  #note(path: string, kind: Placed["kind"], name: string): boolean {
    const known = this.#kinds.get(path);
    if (known === kind) return true;
    if (known !== undefined) throw refused(`${quote(name)} makes a ${kind} of what is a ${known} in it, too`);
    this.#kinds.set(path, kind);
    return false;
  }
}

const KINDS: Record<string, string> = {
  "character-device": "a device, which cannot be copied",
  "block-device": "a device, which cannot be copied",
  fifo: "a named pipe, which cannot be copied",
};

/** Splits a path, without empty parts and ".". */
function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

function requireName(name: string): string[] {
  if (name === "") throw refused("an entry has no name");
  if (name.startsWith("/")) throw refused(`${quote(name)} is an absolute path`);
  if (name.includes("\0")) throw refused(`${quote(name)} holds a zero byte`);
  // The tar reader substitutes this character for invalid UTF-8, so two different names could become the same.
  if (name.includes("\ufffd")) throw refused(`${quote(name)} is not UTF-8`);
  if (Buffer.byteLength(name) > PATH_MAX_BYTES) throw refused(`${quote(name)} is longer than ${PATH_MAX_BYTES} bytes`);
  const parts = partsOf(name);
  if (parts.includes("..")) throw refused(`${quote(name)} leads out of it`);
  if (parts.length > UNPACK_DEPTH_MAX) throw refused(`${quote(name)} is more than ${UNPACK_DEPTH_MAX} folders deep`);
  const long = parts.find((part) => Buffer.byteLength(part) > NAME_MAX_BYTES);
  if (long !== undefined) throw refused(`the name ${quote(long)} is longer than ${NAME_MAX_BYTES} bytes`);
  if (parts.some((part) => SPARSE_FOLDER.test(part))) throw sparse(name);
  return parts;
}

function requireLinkTarget({ name, linkname }: EntryHeader): string {
  const target = linkname ?? "";
  const isText = target !== "" && !target.includes("\0") && !target.includes("\ufffd");
  if (isText && Buffer.byteLength(target) <= PATH_MAX_BYTES) return target;
  throw refused(`the link ${quote(name)} leads to ${quote(target)}, which is not a path`);
}

function requireWholeFile({ name, pax, size }: EntryHeader): void {
  if (Object.keys(pax ?? {}).some((key) => key.startsWith("GNU.sparse."))) throw sparse(name);
  if (!Number.isSafeInteger(size)) throw refused(`${quote(name)} has a size that is not a number`);
}

function sparse(name: string) {
  return refused(`${quote(name)} is a sparse file; make the archive without --sparse`);
}
