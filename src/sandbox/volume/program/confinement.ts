/**
 * Confines this process to a volume with chroot. From then on the kernel resolves every path below the volume's root,
 * however folders and links change, so no path needs checking before use. The process already has its own user and
 * other namespaces: it is root for the volume's files and for nothing else.
 */
import { FFIType } from "bun:ffi";
import { constants, fstatSync, openSync, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { cString, onFirstUse, pointerTo, requireResult } from "../../../base/c-library.ts";

const libc = onFirstUse({
  chroot: { args: [FFIType.ptr], returns: FFIType.i32 },
  openat: { args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  linkat: { args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
});

/** Constants of Linux that neither Node nor Bun exports. */
const O_PATH = 0o10000000;
const O_CLOEXEC = 0o2000000;
export const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;
const AT_FDCWD = -100;
const AT_SYMLINK_FOLLOW = 0x400;

/** /proc/self/fd, opened before the chroot: turns an O_PATH descriptor into one that can be read. */
let descriptors = -1;

export function confineTo(root: string): void {
  // Loaded before the chroot: a volume contains no library.
  libc();
  descriptors = openSync("/proc/self/fd", constants.O_RDONLY | constants.O_DIRECTORY);
  const path = cString(root);
  requireResult("chroot", () => libc().chroot(pointerTo(path)));
  process.chdir("/");
}

/** Opens `path` with O_PATH: this names the entry without opening it, so it has no side effect on any type of file. */
export async function nameEntry(path: string): Promise<{ fd: number; stats: Stats } & Disposable> {
  const handle = await open(path, O_PATH | O_CLOEXEC);
  // Copied, because the handle may drop its number when it closes.
  const { fd } = handle;
  const stats = fstatSync(fd);
  return { fd, stats, [Symbol.dispose]: () => void handle.close().catch(() => undefined) };
}

/** Opens for reading exactly the entry that `fd` names. */
export function openNamed(fd: number): number {
  const name = cString(String(fd));
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | O_CLOEXEC;
  return requireResult("openat", () => libc().openat(descriptors, pointerTo(name), flags, 0));
}

/** Gives an unnamed file this path, which must be free. */
export function linkFile(fd: number, path: string): void {
  const [from, to] = [cString(String(fd)), cString(path)];
  requireResult("linkat", () =>
    libc().linkat(descriptors, pointerTo(from), AT_FDCWD, pointerTo(to), AT_SYMLINK_FOLLOW),
  );
}
