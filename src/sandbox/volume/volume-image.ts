/**
 * The file that a volume is: one sized ext4 with a journal. Its size is the most that a volume ever takes of the
 * machine, in bytes and in inodes. It takes room as it is written to, and gives back what is removed.
 */
import { mkdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { scaled } from "../../base/time-factor.ts";
import { Fault } from "../../contract/fault.ts";
import { makeSparse } from "../../images/disk/sparse-file.ts";
import { attempt, run } from "../../system/command.ts";
import { HOST_ID_FIRST } from "../../system/id-range.ts";
import type { Mounts } from "../../system/mount/mounts.ts";

/** A volume's filesystem is looked through before it is mounted; a clean one takes a moment, a broken one minutes. */
const VOLUME_CHECK_MS = scaled(600_000);
const VOLUME_MAKE_MS = scaled(60_000);

/**
 * Barriers stay on, unlike on the disks of sandboxes: a volume outlives a crash of the machine. After an error of the
 * filesystem it can only be read, until it is looked through at the next mount.
 */
const VOLUME_MOUNT = "noinit_itable,discard,errors=remount-ro";

/** What sandboxes see is a folder of the filesystem, so that its own lost+found is nobody's. */
export const TREE = "tree";
/** Whoever a sandbox's processes run as, a volume is theirs to write to. */
const TREE_MODE = 0o777;

const MIB = 1024 * 1024;
const LARGE_MIN_MB = 512;
const JOURNAL_SMALL_MB = 8;
const JOURNAL_LARGE_MB = 32;

/** What `flock` ends with when somebody else has the lock. */
const LOCKED = 75;
/** e2fsck: nothing was wrong, or nothing is any more. */
const SOUND_MAX = 1;

/** Formats a new file. It is on the disk when this resolves. */
export async function makeImage(path: string, sizeMB: number): Promise<void> {
  await makeSparse(path, sizeMB * MIB);
  const journal = sizeMB < LARGE_MIN_MB ? JOURNAL_SMALL_MB : JOURNAL_LARGE_MB;
  const extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
  await run(["mkfs.ext4", "-q", "-F", "-m", "0", "-J", `size=${journal}`, "-E", extended, path], {
    timeoutMs: VOLUME_MAKE_MS,
  });
  await using file = await open(path, "r");
  await file.sync();
}

/**
 * Replays the journal and repairs what a crash left, unless it is attached: then it is being used and needs none of
 * that. Nobody can attach it while it is looked through, also not the next server when this one is killed meanwhile.
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

/** In a filesystem that was just made. Its ids are those on the machine, like the ids of the disks of sandboxes. */
export async function makeTree(path: string): Promise<void> {
  mkdirSync(path);
  await run(["chown", `${HOST_ID_FIRST}:${HOST_ID_FIRST}`, path]);
  await run(["chmod", TREE_MODE.toString(8), path]);
}
