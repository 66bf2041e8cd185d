/** What a backup consists of: the description in its main snapshot, and the places of everything else. */
import { Fault } from "../contract/fault.ts";
import { attempt } from "../system/command.ts";

const FORMAT = 1;

/**
 * Where the main snapshot lies while it is read or written. The path is the same on every machine, because restic
 * compares a file with the one of the same path in the last backup.
 *
 *   backup.json                      the contents
 *   store.sqlite api-key …          files of the data folder
 *   checkpoints/NAME                 as in the pool, with the disk without its holes
 *   cache/PATH                       what checkpoints and templates need of the cache folder
 */
export const VIEW = "/run/sandlot/backup";

export const CONTENTS = "backup.json";
export const STORE = "store.sqlite";
/** Small files and folders of the data folder; a server may lack some. */
export const KEPT_FILES = ["api-key", "link-secret", "tls"] as const;

/** Tag of the main snapshots, which are the backups, and of the snapshots that they refer to. */
export const BACKUP = "backup";
export const PART = "part";

/** Name of the one file in a part. */
export const PART_FILE = "/tree.tar";

export interface Contents {
  format: typeof FORMAT;
  /** Version of the program, and of the store's tables. */
  program: string;
  storeVersion: number;
  createdAt: string;
  cacheFolder: string;
  /** Folders of the cache folder, by path in it, with a digest of the names, sizes and times in them. */
  cached: Record<string, string>;
  /** The snapshot with the images of builds; null: there are none. */
  images: string | null;
  volumes: Record<string, { sizeMB: number; snapshot: string }>;
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

/** Of names, sizes, times and owners: two folders made at different times differ. Undefined: there is none. */
export async function digestOf(folder: string): Promise<string | undefined> {
  const { exitCode, stdout } = await attempt(["bash", "-c", LIST_FILES, "bash", folder], { timeoutMs: null });
  return exitCode === 0 ? stdout.split(" ")[0] : undefined;
}
