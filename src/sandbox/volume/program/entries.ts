/**
 * The entries of the volume that this process is confined to. Entries that are neither file, folder nor link can be
 * listed, removed and given other owners, but are never opened. System errors pass through; main.ts translates them.
 */
import type { Stats } from "node:fs";
import { chmod, chown, lstat, mkdir, readlink, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path/posix";
import { Fault } from "../../../contract/fault.ts";
import type { EntryAttributes, EntryOptions, VolumeEntry } from "../../../contract/internal/volume-content.ts";
import { namesIn } from "./directory.ts";
import { quotedPath } from "./entry-fault.ts";
import { removeTree } from "./removal.ts";

/** Limits of one list: the server holds the response in memory as a whole. */
export const CONTENT_LIST_MAX_ENTRIES = 20_000;
const CONTENT_LIST_MAX_BYTES = 16 * 1024 * 1024;
const CONTENT_LIST_BATCH = 64;

/** Owner of new entries: the user that commands in sandboxes run as. */
const OWNER = 1000;
export const FILE_MODE = 0o666;
const FOLDER_MODE = 0o777;
const PERMISSIONS = 0o7777;
/** The kernel's own limit of links to follow. */
const LINKS_MAX = 40;

export async function statEntry(path: string): Promise<VolumeEntry> {
  return await asEntry(path, await lstat(path));
}

export async function listFolder(path: string, depth: number): Promise<VolumeEntry[]> {
  const found: VolumeEntry[] = [];
  let bytes = 0;
  let level = [path];
  for (let below = 0; below < depth && level.length > 0; below++) {
    const next: string[] = [];
    for (const folder of level) {
      try {
        for await (const entry of entriesOf(folder)) {
          // Names and link targets may have thousands of characters each.
          bytes += JSON.stringify(entry).length;
          if (found.length === CONTENT_LIST_MAX_ENTRIES || bytes > CONTENT_LIST_MAX_BYTES) throw tooMany(path);
          found.push(entry);
          if (entry.type === "directory") next.push(entry.path);
        }
      } catch (thrown) {
        // A folder that disappears during the listing is skipped; only the requested one must exist.
        if (thrown instanceof Fault || folder === path) throw thrown;
      }
    }
    level = next;
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

export async function makeFolder(path: string, options: EntryOptions): Promise<VolumeEntry> {
  if (options.force) await ensureFolder(dirname(path), options);
  await mkdir(path).then(
    () => setAttributes(path, options, FOLDER_MODE),
    async (thrown: NodeJS.ErrnoException) => {
      const isThere = thrown.code === "EEXIST" && options.force && (await stat(path)).isDirectory();
      if (!isThere) throw thrown;
    },
  );
  return await asEntry(path, await lstat(path));
}

export async function changeEntry(path: string, changes: EntryAttributes): Promise<VolumeEntry> {
  const now = await stat(path);
  if (changes.uid !== undefined || changes.gid !== undefined) {
    await chown(path, changes.uid ?? now.uid, changes.gid ?? now.gid);
  }
  // Last, because a change of owner clears mode bits.
  if (changes.mode !== undefined) await chmod(path, changes.mode & PERMISSIONS);
  return await asEntry(path, await stat(path));
}

export async function removeEntry(path: string): Promise<void> {
  if (path === "/") throw new Fault(400, "the root of a volume cannot be removed; delete the volume");
  await removeTree(Buffer.from(path));
}

/** File sizes, null for a missing file, 0 for a folder. For restoring a sandbox that has them open. */
export async function sizesOf(paths: readonly string[]): Promise<(number | null)[]> {
  const sizes: (number | null)[] = [];
  for (const path of paths) {
    const stats = await lstat(path).catch(() => undefined);
    sizes.push(stats === undefined ? null : stats.isDirectory() ? 0 : stats.size);
  }
  return sizes;
}

/** Makes the missing folders of a path, with the owner of the entry they are for. */
export async function ensureFolder(path: string, options: EntryAttributes): Promise<void> {
  const owner = ownerOf(options);
  const missing: string[] = [];
  for (let at = path; at !== "/"; at = dirname(at)) {
    if ((await stat(at).catch(() => undefined)) !== undefined) break;
    missing.push(at);
  }
  for (const each of missing.reverse()) {
    const made = await mkdir(each).then(
      () => true,
      (thrown: NodeJS.ErrnoException) => {
        if (thrown.code !== "EEXIST") throw thrown;
        return false;
      },
    );
    if (made) await setAttributes(each, owner, FOLDER_MODE);
  }
}

async function setAttributes(path: string, { uid, gid, mode }: EntryAttributes, usual: number): Promise<void> {
  await chown(path, uid ?? OWNER, gid ?? OWNER);
  await chmod(path, (mode ?? usual) & PERMISSIONS);
}

export function ownerOf({ uid, gid }: EntryAttributes): { uid: number; gid: number } {
  return { uid: uid ?? OWNER, gid: gid ?? OWNER };
}

/** Where a file with this path is or would be. Follows links at its end; the kernel resolves the others. */
export async function placeOf(path: string): Promise<{ folder: string; name: string }> {
  let at = path;
  for (let links = 0; links < LINKS_MAX; links++) {
    const target = await readlink(at).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === "EINVAL" || thrown.code === "ENOENT") return undefined;
      throw thrown;
    });
    // Not normalised: ".." after a link cannot be resolved from the path alone.
    const folder = at.slice(0, at.lastIndexOf("/") + 1);
    if (target === undefined) return { folder, name: at.slice(folder.length) };
    at = target.startsWith("/") ? target : folder + target;
  }
  throw Object.assign(new Error("too many links"), { code: "ELOOP" });
}

export async function asEntry(path: string, stats: Stats): Promise<VolumeEntry> {
  const type = typeOf(stats);
  const entry: VolumeEntry = {
    name: basename(path) === "" ? "/" : basename(path),
    type,
    path,
    size: stats.size,
    mode: stats.mode & PERMISSIONS,
    uid: stats.uid,
    gid: stats.gid,
    atime: stats.atime.toISOString(),
    mtime: stats.mtime.toISOString(),
    ctime: stats.ctime.toISOString(),
  };
  return type === "symlink" ? { ...entry, target: await readlink(path) } : entry;
}

function typeOf(stats: Stats): VolumeEntry["type"] {
  if (stats.isFile()) return "file";
  if (stats.isDirectory()) return "directory";
  return stats.isSymbolicLink() ? "symlink" : "unknown";
}

async function* entriesOf(folder: string): AsyncGenerator<VolumeEntry> {
  let batch: string[] = [];
  const look = async () => {
    const entries = await Promise.all(batch.map((path) => lookedAt(path)));
    batch = [];
    return entries.filter((entry) => entry !== undefined);
  };
  for (const { name } of namesIn(folder)) {
    batch.push(join(folder, name.toString()));
    if (batch.length === CONTENT_LIST_BATCH) yield* await look();
  }
  yield* await look();
}

/** Undefined: the entry is gone meanwhile, or its name is not valid text and therefore no path of this API. */
async function lookedAt(path: string): Promise<VolumeEntry | undefined> {
  try {
    return await asEntry(path, await lstat(path));
  } catch {
    return undefined;
  }
}

function tooMany(path: string): Fault {
  return new Fault(
    400,
    `${quotedPath(path)} has more than ${CONTENT_LIST_MAX_ENTRIES} entries down to this depth, or names and links that ` +
      `are longer than ${CONTENT_LIST_MAX_BYTES / 1024 ** 2} MiB together; list less of it`,
  );
}
