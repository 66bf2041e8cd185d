/**
 * POST /files/compose: joins files in order into one, which appears whole or not at all. The parts are removed once the
 * new file is safely on disk. Until then, and on every failure, the parts and the old destination stay unchanged.
 */
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, open, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, normalize } from "node:path";
import { kernelUuid } from "../../base/kernel-random.ts";
import { systemCode } from "../../base/system-code.ts";
import { Fault } from "../../contract/fault.ts";
import { ensureDirectory, NOTHING_THERE } from "../file-tree/tree.ts";
import { NAME_MAX_BYTES } from "../limits.ts";
import { logError } from "../system/log.ts";
import { quote } from "../system/quote.ts";
import type { Account } from "../users/accounts.ts";
import { requireNameable } from "../users/paths.ts";
import { linkLoopFault, notRegular, removePartial, writeFault } from "./write-failure.ts";

interface ComposedFile {
  name: string;
  path: string;
  type: "file";
}

/** Absolute paths, resolved for the request's user. */
interface Composition {
  sources: readonly string[];
  destination: string;
  owner: Account;
}

interface Source {
  path: string;
  found: BigIntStats;
}

/** Copies from the source's position to its end, and returns the number of bytes. Keep both files open. */
export type CopyPart = (source: FileHandle, target: FileHandle) => Promise<number>;

/**
 * In the kernel (copy_file_range, or Bun's fallback between file systems without it), on a thread of Bun's pool. On the
 * event loop's thread, a busy disk would block every request of the sandbox.
 */
export const copyPart: CopyPart = (source, target) => Bun.write(Bun.file(target.fd), Bun.file(source.fd));

const FILE_MODE = 0o666;

/** When the client leaves before the rename, everything is undone; from the rename on, it completes. */
export async function compose(
  composition: Composition,
  signal: AbortSignal,
  copy: CopyPart = copyPart,
): Promise<ComposedFile> {
  const { destination } = composition;
  for (const path of [...composition.sources, destination]) requireNameable(path);
  requireNotAmong(composition);
  const sources = await findSources(composition.sources);
  await requireReplaceable(destination, sources);
  try {
    await ensureDirectory(dirname(destination), composition.owner);
    await writeBeside(composition, sources, signal, copy);
  } catch (thrown) {
    throw writeFault(destination, thrown);
  }
  if (await isSafeOnDisk(dirname(destination))) for (const source of sources) await removeSource(source);
  return { name: basename(destination), path: destination, type: "file" };
}

function requireNotAmong({ sources, destination }: Composition): void {
  if (destination.endsWith("/")) throw new Fault(400, `the destination ${quote(destination)} names a directory`);
  if (sources.some((source) => normalize(source) === normalize(destination))) throw destinationIsSource(destination);
}

async function findSources(paths: readonly string[]): Promise<Source[]> {
  const found = new Map<string, Source>();
  for (const path of paths) {
    const source = { path, found: await regularFile(path) };
    const same = found.get(identity(source.found));
    if (same !== undefined) throw namedTwice(same.path, path);
    found.set(identity(source.found), source);
  }
  return [...found.values()];
}

/** Checks the file before opening it, because opening a device can have side effects. Links are followed. */
async function regularFile(path: string): Promise<BigIntStats> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isFile()) throw notRegular(path);
    return found;
  } catch (thrown) {
    const code = systemCode(thrown);
    if (code === "ELOOP") throw linkLoopFault(path, thrown);
    if (NOTHING_THERE.has(code)) throw new Fault(404, `there is no file at ${quote(path)}`, { cause: thrown });
    throw code === "" ? thrown : new Fault(500, `${quote(path)} cannot be read: ${code}`, { cause: thrown });
  }
}

/** A link at the destination is itself replaced, as rename does; its target stays. */
async function requireReplaceable(destination: string, sources: readonly Source[]): Promise<void> {
  let present: BigIntStats;
  try {
    present = await stat(destination, { bigint: true });
  } catch (thrown) {
    // Nothing exists there, or nothing can; creating the file reports the error.
    if (systemCode(thrown) !== "") return;
    throw thrown;
  }
  if (present.isDirectory()) throw new Fault(400, `the destination ${quote(destination)} is a directory`);
  if (!present.isFile()) throw notRegular(destination);
  if (sources.some(({ found }) => identity(found) === identity(present))) throw destinationIsSource(destination);
}

async function writeBeside(
  { destination, owner }: Composition,
  sources: readonly Source[],
  signal: AbortSignal,
  copy: CopyPart,
): Promise<void> {
  const temporary = temporaryPath(destination);
  const create = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  await using file = await open(temporary, create, FILE_MODE);
  try {
    await file.chown(owner.uid, owner.gid);
    for (const source of sources) await append(source, file, signal, copy);
    await file.sync();
    signal.throwIfAborted();
    await rename(temporary, destination);
  } catch (thrown) {
    await removePartial(temporary, file);
    throw thrown;
  }
}

/** Beside the destination, so that it can be renamed to it. A long name is left out of it. */
function temporaryPath(destination: string): string {
  const addition = `.e2b-compose.${kernelUuid()}.tmp`;
  const fits = Buffer.byteLength(basename(destination) + addition) <= NAME_MAX_BYTES;
  return fits ? destination + addition : `${dirname(destination)}/${addition}`;
}

/** Stops when a growing source exceeds its size. A file of size zero may still have content (/proc). */
async function append(source: Source, target: FileHandle, signal: AbortSignal, copy: CopyPart): Promise<void> {
  await using file = await openFound(source);
  const size = Number(source.found.size);
  let copied = 0;
  while (copied <= size || size === 0) {
    signal.throwIfAborted();
    const length = await copy(file, target);
    if (length === 0) break;
    copied += length;
  }
  const isWhole = size === 0 || copied === size;
  if (!isWhole || !isUnchanged(source.found, await file.stat({ bigint: true }))) throw changed(source.path);
}

/** Checks the opened file, because the path may have been replaced since. A named pipe must not block. */
async function openFound({ path, found }: Source): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const opened = await file.stat({ bigint: true });
    if (!opened.isFile()) throw notRegular(path);
    if (!isUnchanged(found, opened)) throw changed(path);
    return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
}

/** Without this sync, a crash after the removals could lose both the new name and the parts. */
async function isSafeOnDisk(directory: string): Promise<boolean> {
  try {
    await using handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
    await handle.sync();
    return true;
  } catch (thrown) {
    // Some file systems cannot sync a directory; then there is nothing to wait for.
    if (systemCode(thrown) === "EINVAL") return true;
    logError("the parts of a composed file are kept: the directory could not be written to the disk", thrown);
    return false;
  }
}

/** Keeps a part that was replaced or modified after it was copied. */
async function removeSource({ path, found }: Source): Promise<void> {
  try {
    if (isUnchanged(found, await stat(path, { bigint: true }))) await unlink(path);
  } catch (thrown) {
    if (systemCode(thrown) !== "ENOENT") logError("a part of a composed file could not be removed", thrown);
  }
}

function identity(file: BigIntStats): string {
  return `${file.dev}:${file.ino}`;
}

function isUnchanged(before: BigIntStats, now: BigIntStats): boolean {
  return identity(before) === identity(now) && before.size === now.size && before.mtimeNs === now.mtimeNs;
}

function namedTwice(first: string, second: string): Fault {
  const names = first === second ? quote(first) : `${quote(first)} and ${quote(second)}`;
  return new Fault(400, `a file is named twice (${names}); each source is removed afterwards, so it can be used once`);
}

function destinationIsSource(destination: string): Fault {
  return new Fault(400, `the destination ${quote(destination)} is also a source; compose into another file`);
}

function changed(path: string): Fault {
  return new Fault(500, `${quote(path)} changed while it was being copied; nothing was done`);
}
