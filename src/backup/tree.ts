/**
 * File trees of tenants, packed by tar and unpacked again. tar reads no holes and takes any depth; restic stores its
 * output as one file.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { Fault } from "../contract/fault.ts";
import { attempt } from "../system/command.ts";
import { packing, unpacking } from "../system/tar-arguments.ts";
import { PART_FILE } from "./contents.ts";
import type { Repository, Saved } from "./repository.ts";

/**
 * tar ends with 1 if a file changed while it was read, which is to be expected in a volume. Its exit code is written to
 * a file: restic does not tell whether tar has failed, or restic itself.
 */
const ALLOW_CHANGES = '"$@"; code=$?; echo $code > "$0"; [ $code -le 1 ]';
/** Higher exit codes are those of signals. */
const TAR_FAILED = 2;
const SIGPIPE_EXIT = 128 + 13;
/** tar then prints a dot for each ten mebibytes. */
const UNTAR_PROGRESS = ["--checkpoint=1024", "--checkpoint-action=dot"];
/** tar's exit code when it could not write some files. */
const SOME_FILES = 2;
/**
 * tar's messages about the machine's disk, at the end of a line, where no tenant can write. A full volume concerns only
 * its tenant, so "No space left" is not among them.
 */
const OF_MACHINE = /: (?:Input\/output error|Read-only file system)$/m;
const FAILURE_SHOWN_CHARS = 300;

/** `codeFile` gets tar's exit code, for `tarFailed`. */
export async function saveTree(
  repository: Repository,
  { folder, names }: { folder: string; names: readonly string[] },
  { tags, codeFile }: { tags: readonly string[]; codeFile: string },
): Promise<Saved> {
  rmSync(codeFile, { force: true });
  const command = ["bash", "-c", ALLOW_CHANGES, codeFile, ...packing(folder, names)];
  return await repository.saveOutput(PART_FILE, command, tags);
}

/** Whether tar has failed by itself: restic's failure ends it by SIGPIPE, or before it has an exit code. */
export function tarFailed(codeFile: string): boolean {
  const code = existsSync(codeFile) ? Number(readFileSync(codeFile, "utf8")) : 0;
  return code >= TAR_FAILED && code !== SIGPIPE_EXIT;
}

/** Returns what tar said if it cannot read a tree. */
export async function readFault(folder: string, name: string): Promise<string | undefined> {
  // tar reads no content if it writes to /dev/null itself.
  const command = ["bash", "-c", '"$@" | cat > /dev/null; exit "$PIPESTATUS"', "bash", ...packing(folder, [name])];
  const { exitCode, stderr } = await attempt(command, { timeoutMs: null });
  return exitCode < TAR_FAILED ? undefined : stderr.trim();
}

/** Returns what tar said if it could not write some files; it has restored all others. */
export async function restoreTree(
  repository: Repository,
  snapshot: string,
  folder: string,
): Promise<string | undefined> {
  const tar = [...unpacking(folder), ...UNTAR_PROGRESS];
  const { exitCode, stderr } = await repository.pipe(snapshot, PART_FILE, tar);
  if (exitCode === 0) return undefined;
  if (exitCode === SOME_FILES && !OF_MACHINE.test(stderr)) return endOf(stderr.trim());
  throw new Fault(500, `tar ended with exit code ${exitCode} in ${folder} and said: ${endOf(stderr.trim())}`);
}

/** Tools may name a path of any length before the reason. */
export function endOf(cause: unknown): string {
  return String(cause).slice(-FAILURE_SHOWN_CHARS);
}
