/**
 * What a backup consists of: several snapshots with one common tag. The last one holds `backup.json`, which names the
 * others. Without it they are the remains of a backup that failed.
 */
import { Fault } from "../contract/fault.ts";
import { attempt } from "../system/command.ts";
import type { Listed } from "./repository.ts";

const FORMAT = 1;

/**
 * Where the main snapshot lies while it is read or written. The path is the same on every machine, because restic
 * compares a file with the one of the same path in the last backup.
 *
 *   store.sqlite api-key …          files of the data folder
 *   checkpoints/NAME                 as in the pool, with the disk without its holes
 *   cache/PATH                       what checkpoints and templates need of the cache folder
 */
export const STAGING_MOUNT = "/run/sandlot/backup";

/** Name of the one file in the last snapshot. */
export const CONTENTS = "/backup.json";
export const STORE = "store.sqlite";
/** Small files and folders of the data folder; a server may lack some. */
export const KEPT_FILES = ["api-key", "link-secret", "tls", "rules"] as const;
/** Notes about images of registries that are among the images. */
export const FETCHED_NOTES = "fetched-images";

/** Tag of the last snapshots, which are the backups, and of the snapshots that they name. */
export const BACKUP = "backup";
export const PART_TAG = "part";
/** The tag of all snapshots of one backup. */
export const groupTag = () => `backup-${crypto.randomUUID()}`;
const GROUP = /^backup-[0-9a-f-]{36}$/;

/** Name of the one file in a part. */
export const PART_FILE = "/tree.tar";

export interface Contents {
  format: typeof FORMAT;
  /** Version of the program, and of the store's tables. */
  program: string;
  storeVersion: number;
  createdAt: string;
  cacheFolder: string;
  /** The snapshot of STAGING_MOUNT. */
  main: string;
  /** Folders of the cache folder, by path in it, with a digest of the names, sizes and times in them. */
  cached: Record<string, string>;
  /** The snapshot with the images of builds; null: there are none. */
  images: string | null;
  volumes: Record<string, { sizeMB: number; snapshot: string }>;
  /** What could not be saved, with the reason. */
  missing: { name: string; reason: string }[];
}

/** The snapshots that a backup names. */
function partsOf({ main, images, volumes }: Contents): string[] {
  return [main, images ?? [], Object.values(volumes).map(({ snapshot }) => snapshot)].flat();
}

/** Throws Fault 422 unless all snapshots of the backup exist. */
export function requireComplete(contents: Contents, snapshots: readonly Listed[]): void {
  const there = new Set(snapshots.map(({ id }) => id));
  const lost = partsOf(contents).filter((id) => !there.has(id));
  if (lost.length > 0) throw new Fault(422, `this backup is incomplete: ${lost.length} of its snapshots are gone`);
}

/**
 * The snapshots of whole backups, and of the remains of failed ones, whose last snapshot is older than `before`. The
 * newest backup is never among them.
 */
export function olderThan(before: number, snapshots: readonly Listed[]): string[] {
  const groups = Map.groupBy(snapshots, ({ tags }) => tags.find((tag) => GROUP.test(tag)));
  const newest = newestBackup(snapshots);
  return [...groups].flatMap(([group, members]) => {
    const isOld = members.every(({ time }) => Date.parse(time) < before);
    return group !== undefined && isOld && !members.includes(newest as Listed) ? members.map(({ id }) => id) : [];
  });
}

/** `snapshots`: the oldest first. */
export function newestBackup(snapshots: readonly Listed[]): Listed | undefined {
  return backupsAmong(snapshots).at(-1);
}

export function backupsAmong(snapshots: readonly Listed[]): Listed[] {
  return snapshots.filter(({ tags }) => tags.includes(BACKUP));
}

/** Throws Fault 422 for a backup that this program cannot read. */
export function parseContents(text: string, storeVersionMax: number): Contents {
  const contents = JSON.parse(text) as Contents;
  const { format, program, storeVersion } = contents;
  if (format === FORMAT && storeVersion <= storeVersionMax) return contents;
  const what = format === FORMAT ? `tables of version ${storeVersion}` : `format ${format}`;
  const known = format === FORMAT ? storeVersionMax : FORMAT;
  throw new Fault(
    422,
    `this backup has ${what}, and this program reads up to ${known}. FIX: restore it with sandlot ${program}, which ` +
      "wrote it, or a later version",
  );
}

export function newContents(known: Omit<Contents, "format">): Contents {
  return { format: FORMAT, ...known };
}

const LIST_FILES = `set -o pipefail; cd "$1" && find . -type d -printf '%P d %m %U %G\\n' \\
  -o -printf '%P %y %s %T@ %m %U %G %l\\n' | LC_ALL=C sort | sha256sum`;

/** A digest of names, sizes, times and owners: two folders made at different times differ. Undefined: there is none. */
export async function digestOf(folder: string): Promise<string | undefined> {
  const { exitCode, stdout } = await attempt(["bash", "-c", LIST_FILES, "bash", folder], { timeoutMs: null });
  return exitCode === 0 ? stdout.split(" ")[0] : undefined;
}
