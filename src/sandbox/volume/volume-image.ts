/**
 * The image file of a volume: one ext4 of fixed size with a journal. The size bounds what a volume ever takes of the
 * machine, in bytes and in inodes. The file is sparse: it grows with writes and shrinks with removals.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { MIB } from "../../contract/limit.ts";
import { makeSparse } from "../../images/disk/sparse-file.ts";
import { attempt, run } from "../../system/command.ts";
import { HOST_ID_FIRST } from "../../system/id-range.ts";
import type { Mounts } from "../../system/mount/mounts.ts";
import { syncPath } from "../../system/sync-path.ts";

/** Timeout of the filesystem check before a mount. A clean filesystem takes a moment, a broken one minutes. */
const VOLUME_CHECK_MS = scaled(600_000);
const VOLUME_MAKE_MS = scaled(60_000);

/**
 * Barriers stay on, unlike on the disks of sandboxes, because a volume survives a crash of the machine. After a
 * filesystem error the volume is read-only until the check at the next mount.
 */
const VOLUME_MOUNT = "noinit_itable,discard,errors=remount-ro";

/** Sandboxes see a subfolder of the filesystem, so that they do not see its lost+found. */
export const TREE = "tree";
/** Every user in a sandbox may write to a volume. */
const TREE_MODE = 0o777;

const LARGE_MIN_MB = 512;
const JOURNAL_SMALL_MB = 8;
const JOURNAL_LARGE_MB = 32;

/** Exit code of `flock` when another process has the lock. */
const LOCKED = 75;
/** Highest exit code of e2fsck for a sound filesystem: 0 for no errors, 1 for corrected ones. */
const SOUND_MAX = 1;

export function volumeImage(folder: string): string {
  return join(folder, "disk.img");
}

export function volumeFacts(folder: string): string {
  return join(folder, "volume.json");
}

/** Formats a new file, durable when this resolves. */
export async function makeImage(path: string, sizeMB: number): Promise<void> {
  await makeSparse(path, sizeMB * MIB);
  const journal = sizeMB < LARGE_MIN_MB ? JOURNAL_SMALL_MB : JOURNAL_LARGE_MB;
  const extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
  await run(["mkfs.ext4", "-q", "-F", "-m", "0", "-J", `size=${journal}`, "-E", extended, path], {
    timeoutMs: VOLUME_MAKE_MS,
  });
  await syncPath(path);
}

/**
 * Replays the journal and repairs crash damage, unless the image is attached and therefore in use. The lock keeps
 * others from attaching it meanwhile, even the next server after this one is killed.
 */
export async function checkImage(path: string): Promise<void> {
  const command = ["flock", "--nonblock", "--conflict-exit-code", String(LOCKED), path, "e2fsck", "-p", path];
  const { exitCode, stdout, stderr } = await attempt(command, { timeoutMs: VOLUME_CHECK_MS, name: "e2fsck" });
  if (exitCode <= SOUND_MAX || exitCode === LOCKED) return;
  const cause = new Error(`${stdout.trim()}\n${stderr.trim()}`.trim());
  throw new Fault(
    500,
    "the filesystem of this volume is damaged; the server's log tells the operator how to repair it",
    {
      cause: new Error(`e2fsck -p ended with ${exitCode}. FIX: run e2fsck on ${path} by hand`, { cause }),
    },
  );
}

export async function mountImage(path: string, target: string, mounts: Mounts): Promise<void> {
  await mounts.do({ kind: "volume", image: path, target, options: VOLUME_MOUNT });
}

/** Makes the tree in a new filesystem. Owners are stored as the machine's ids, as on the disks of sandboxes. */
export async function makeTree(path: string): Promise<void> {
  mkdirSync(path);
  await run(["chown", `${HOST_ID_FIRST}:${HOST_ID_FIRST}`, path]);
  await run(["chmod", TREE_MODE.toString(8), path]);
}
