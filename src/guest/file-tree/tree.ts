/** Changes and walks of the file tree, as root; the given user only becomes the owner of new directories. */
import type { Stats } from "node:fs";
import { chown, lstat, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../../base/system-code.ts";
import { LIST_STAT_PARALLEL } from "../limits.ts";
import { quote } from "../system/quote.ts";
import { refuse } from "../system/rpc-fault.ts";
import type { Account, Accounts } from "../users/accounts.ts";
import { requireNameable } from "../users/paths.ts";
import { type Entry, readEntry } from "./entry.ts";
import { keptFolders, requireRemovable } from "./running-system.ts";

export const LIST_ENTRIES_MAX = 200_000;

const DIRECTORY_MODE = 0o755;
/** Errors that mean nothing exists at a path. No file can exist at a path that is too long. */
export const NOTHING_THERE: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ENAMETOOLONG"]);
/** Errors for entries that a listing skips: deleted meanwhile, or too deep for any path. */
const UNREACHABLE: ReadonlySet<string> = new Set(["ENOENT", "ENAMETOOLONG"]);

/** Undefined for a dangling link, too. */
export async function statIfThere(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (thrown) {
    if (systemCode(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}

/** Creates a directory and its missing parents, each owned by the user. Existing directories stay unchanged. */
export async function ensureDirectory(path: string, owner: Account): Promise<void> {
  const missing: string[] = [];
  for (let at = path; (await statIfThere(at)) === undefined; at = dirname(at)) missing.push(at);
  for (const directory of missing.reverse()) await makeOwned(directory, owner);
}

async function makeOwned(directory: string, owner: Account): Promise<void> {
  try {
    await mkdir(directory, { mode: DIRECTORY_MODE });
  } catch (thrown) {
    // Another process created it meanwhile and keeps its ownership.
    if (systemCode(thrown) === "EEXIST" && (await statIfThere(directory))?.isDirectory()) return;
    throw thrown;
  }
  await chown(directory, owner.uid, owner.gid);
}

export async function makeDirectory(path: string, owner: Account): Promise<void> {
  requireNameable(path);
  const present = await attempt(`look at ${quote(path)}`, () => statIfThere(path));
  if (present?.isDirectory()) throw refuse("already_exists", `the directory ${quote(path)} already exists`);
  if (present !== undefined) throw refuse("invalid_argument", `${quote(path)} exists and is not a directory`);
  await attempt(`create the directory ${quote(path)}`, () => ensureDirectory(path, owner));
}

export async function move(source: string, destination: string, owner: Account): Promise<void> {
  await describe(source, () => lstat(source));
  requireNameable(destination);
  await attempt(`create the parent of ${quote(destination)}`, () => ensureDirectory(dirname(destination), owner));
  await attempt(`move ${quote(source)} to ${quote(destination)}`, () => rename(source, destination), source);
}

/** A missing path counts as removed. */
export async function remove(path: string): Promise<void> {
  await attempt(`remove ${quote(path)}`, async () => {
    if (await canBeRemoved(path, await keptFolders())) await rm(path, { recursive: true, force: true });
  });
}

/** Returns false if nothing exists, even since a moment ago. Throws for protected folders. */
async function canBeRemoved(path: string, kept: readonly string[]): Promise<boolean> {
  try {
    await lstat(path);
    await requireRemovable(path, kept);
    return true;
  } catch (thrown) {
    if (NOTHING_THERE.has(systemCode(thrown))) return false;
    throw thrown;
  }
}

export function describe<T>(path: string, look: () => Promise<T>): Promise<T> {
  return attempt(`look at ${quote(path)}`, look, path);
}

/** Lists everything below a directory down to a depth, parents before children, names in byte order. */
export async function list(path: string, depth: number, accounts: Accounts): Promise<Entry[]> {
  const top = await describe(path, () => stat(path));
  if (!top.isDirectory()) throw refuse("invalid_argument", `${quote(path)} is not a directory`);
  const entries: Entry[] = [];
  await attempt(`list ${quote(path)}`, () => collect(path, depth, accounts, entries), path);
  return entries;
}

async function collect(directory: string, depth: number, accounts: Accounts, into: Entry[]): Promise<void> {
  const children = await readdir(directory, { withFileTypes: true });
  children.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  if (into.length + children.length > LIST_ENTRIES_MAX) {
    throw refuse("resource_exhausted", `more than ${LIST_ENTRIES_MAX} entries; list with a smaller depth`);
  }
  const prefix = directory.endsWith("/") ? directory : `${directory}/`;
  for (let at = 0; at < children.length; at += LIST_STAT_PARALLEL) {
    const batch = children.slice(at, at + LIST_STAT_PARALLEL);
    const described = await Promise.all(batch.map((child) => readUnlessGone(prefix + child.name, accounts)));
    for (const [index, entry] of described.entries()) {
      if (entry === undefined) continue;
      into.push(entry);
      if (depth > 1 && batch[index]?.isDirectory())
        await collectUnlessGone(prefix + entry.name, depth - 1, accounts, into);
    }
  }
}

async function readUnlessGone(path: string, accounts: Accounts): Promise<Entry | undefined> {
  try {
    return await readEntry(path, accounts);
  } catch (thrown) {
    if (UNREACHABLE.has(systemCode(thrown))) return undefined;
    throw thrown;
  }
}

async function collectUnlessGone(path: string, depth: number, accounts: Accounts, into: Entry[]): Promise<void> {
  try {
    await collect(path, depth, accounts, into);
  } catch (thrown) {
    if (!UNREACHABLE.has(systemCode(thrown))) throw thrown;
  }
}

/** Runs a filesystem step; a failure names the step. `missing` is the path that a "not found" error refers to. */
async function attempt<T>(what: string, step: () => Promise<T>, missing?: string): Promise<T> {
  try {
    return await step();
  } catch (thrown) {
    const code = systemCode(thrown);
    if (code === "") throw thrown;
    if (missing !== undefined && NOTHING_THERE.has(code)) {
      throw refuse("not_found", `there is nothing at ${quote(missing)}`, thrown);
    }
    if (code === "ELOOP") {
      throw refuse("failed_precondition", `could not ${what}: its symbolic links lead back to themselves`, thrown);
    }
    throw refuse("internal", `could not ${what}: ${code}`, thrown);
  }
}
