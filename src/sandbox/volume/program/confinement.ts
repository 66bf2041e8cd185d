/**
 * Shuts this process into a volume. From then on the kernel resolves every path below the volume's root, whatever
 * becomes of folders and links meanwhile, so that no path has to be looked through before it is used. The process has
 * been given user and other namespaces of its own before: it is root to the volume's files and to nothing else.
 */
import { FFIType, ptr } from "bun:ffi";
import { constants, fstatSync, openSync, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { callResult, cString, onFirstUse } from "../../../base/c-library.ts";

const libc = onFirstUse({
  chroot: { args: [FFIType.ptr], returns: FFIType.i32 },
  openat: { args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  linkat: { args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
});

/** The same on every machine, though neither Node nor Bun names them. */
const O_PATH = 0o10000000;
const O_CLOEXEC = 0o2000000;
export const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;
const AT_FDCWD = -100;
const AT_SYMLINK_FOLLOW = 0x400;

/** The descriptors of this process as files, by which one that only names a file becomes one that opens it. */
let descriptors = -1;

export function confineTo(root: string): void {
  // Loaded now: there is no library in a volume.
  libc();
  descriptors = openSync("/proc/self/fd", constants.O_RDONLY | constants.O_DIRECTORY);
  const path = cString(root);
  must("chroot", () => libc().chroot(ptr(path)));
  process.chdir("/");
}

/** What is at `path`, named and not opened: nothing happens to it, whatever it is. */
export async function nameEntry(path: string): Promise<{ fd: number; stats: Stats } & Disposable> {
  const handle = await open(path, O_PATH | O_CLOEXEC);
  // The number outlives the handle's own ideas of closing.
  const { fd } = handle;
  const stats = fstatSync(fd);
  return { fd, stats, [Symbol.dispose]: () => void handle.close().catch(() => undefined) };
}

/** Opens for reading exactly what `fd` names. */
export function openNamed(fd: number): number {
  const name = cString(String(fd));
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | O_CLOEXEC;
  return must("openat", () => libc().openat(descriptors, ptr(name), flags, 0));
}

/** Gives a file that has no name this one, which must be free. */
export function linkFile(fd: number, path: string): void {
  const [from, to] = [cString(String(fd)), cString(path)];
  must("linkat", () => libc().linkat(descriptors, ptr(from), AT_FDCWD, ptr(to), AT_SYMLINK_FOLLOW));
}

function must(name: string, call: () => number): number {
  const result = callResult(name, call);
  if (typeof result !== "number") throw result;
  return result;
}
