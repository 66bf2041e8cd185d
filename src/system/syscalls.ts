/**
 * Dangerous: raw system calls through bun:ffi, for the few operations that no tool does as fast or at all. Each call
 * blocks its thread, so calls that may take milliseconds (mounting) come from the mount worker only. Paths passed here
 * are the server's, never a tenant's.
 */
import { FFIType } from "bun:ffi";
import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import { cString, errorNumber, onFirstUse, pointerTo, SystemError } from "../base/c-library.ts";
import { Fault } from "../contract/fault.ts";

/** Another server may take a free loop device between two calls. */
const LOOP_ATTEMPTS_MAX = 64;

const libc = onFirstUse({
  mount: { args: [FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.u64, FFIType.ptr], returns: FFIType.i32 },
  umount2: { args: [FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
  ioctl: { args: [FFIType.i32, FFIType.u64, FFIType.u64], returns: FFIType.i32 },
  syncfs: { args: [FFIType.i32], returns: FFIType.i32 },
  flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  mmap: {
    args: [FFIType.ptr, FFIType.u64, FFIType.i32, FFIType.i32, FFIType.i32, FFIType.i64],
    returns: FFIType.i64,
  },
  madvise: { args: [FFIType.i64, FFIType.u64, FFIType.i32], returns: FFIType.i32 },
  mlock: { args: [FFIType.i64, FFIType.u64], returns: FFIType.i32 },
  munmap: { args: [FFIType.i64, FFIType.u64], returns: FFIType.i32 },
  lgetxattr: { args: [FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.u64], returns: FFIType.i64 },
  lremovexattr: { args: [FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
  lseek: { args: [FFIType.i32, FFIType.i64, FFIType.i32], returns: FFIType.i64 },
  copy_file_range: {
    args: [FFIType.i32, FFIType.ptr, FFIType.i32, FFIType.ptr, FFIType.u64, FFIType.u32],
    returns: FFIType.i64,
  },
  setns: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
  socketpair: { args: [FFIType.i32, FFIType.i32, FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
  execve: { args: [FFIType.ptr, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
});

export const MS_RDONLY = 1;
export const MS_NOSUID = 2;
export const MS_NODEV = 4;
export const MS_NOEXEC = 8;
export const MS_REMOUNT = 32;
export const MS_NOATIME = 1024;
export const MS_BIND = 4096;

const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
const SOCK_CLOEXEC = 0o2000000;
const CLONE_NEWIPC = 0x08000000;
const MNT_DETACH = 2;
const LOCK_EX = 2;
const LOCK_EX_NB = LOCK_EX | 4;
const EBUSY = 16;
const EAGAIN = 11;
const ENXIO = 6;
const ENODATA = 61;
const SEEK_DATA = 3;
const SEEK_HOLE = 4;
const ATTRIBUTE_MAX_BYTES = 64;
const LOOP_CTL_GET_FREE = 0x4c82n;
const LOOP_CONFIGURE = 0x4c0an;
const FICLONE = 0x40049409n;
const LO_FLAGS_AUTOCLEAR = 4;
const PROT_READ = 1;
const MAP_SHARED = 1;
const MADV_HUGEPAGE = 14;
const MADV_POPULATE_READ = 22;

/** Throws a Fault that names the call, with the kernel's error as its cause. */
function failed(call: string, number = errorNumber()): never {
  const cause = new SystemError(call, number);
  throw new Fault(500, cause.message, { cause });
}

export function mount(source: string, target: string, type: string, flags: number, data: string): void {
  const [s, t, y, d] = [cString(source), cString(target), cString(type), cString(data)];
  if (libc().mount(pointerTo(s), pointerTo(t), pointerTo(y), BigInt(flags), pointerTo(d)) !== 0)
    failed(`mount -t ${type} ${source} ${target}`);
}

/** Detaches a mount from this namespace at once; other users keep it alive. */
export function detachMount(target: string): void {
  const t = cString(target);
  if (libc().umount2(pointerTo(t), MNT_DETACH) !== 0) failed(`umount ${target}`);
}

/**
 * Attaches an image file to a free loop device that frees itself after its last user, and passes the device to `use`
 * while it is held open. Because the device frees itself, nothing is left behind, however the server ends.
 *
 * `alone`: returns false, with no effect, while the file is locked. The lock belongs to the open file, which the device
 * keeps while it is attached: so no process attaches the file twice, whichever path it uses.
 */
export function withLoopDevice(image: string, use: (device: string) => void, { alone = false } = {}): boolean {
  const imageFd = openSync(image, "r+");
  if (alone && libc().flock(imageFd, LOCK_EX_NB) !== 0) {
    const code = errorNumber();
    closeSync(imageFd);
    if (code === EAGAIN) return false;
    failed(`locking ${image}`, code);
  }
  const controlFd = openSync("/dev/loop-control", "r+");
  try {
    for (let attempt = 0; attempt < LOOP_ATTEMPTS_MAX; attempt++) {
      const number = libc().ioctl(controlFd, LOOP_CTL_GET_FREE, 0n);
      if (number < 0) failed("LOOP_CTL_GET_FREE");
      const device = `/dev/loop${number}`;
      const deviceFd = openSync(device, "r+");
      try {
        const config = new DataView(new ArrayBuffer(304));
        config.setUint32(0, imageFd, true);
        config.setUint32(8 + 52, LO_FLAGS_AUTOCLEAR, true);
        const bytes = new Uint8Array(config.buffer);
        if (libc().ioctl(deviceFd, LOOP_CONFIGURE, BigInt(pointerTo(bytes))) !== 0) {
          // Another process took the device between the two calls.
          if (errorNumber() === EBUSY) continue;
          failed(`attaching ${image} to ${device}`);
        }
        use(device);
        return true;
      } finally {
        closeSync(deviceFd);
      }
    }
    throw new Fault(503, `no free loop device after ${LOOP_ATTEMPTS_MAX} attempts`);
  } finally {
    closeSync(controlFd);
    closeSync(imageFd);
  }
}

/** A short extended attribute of a file, without following links; undefined if the file lacks it. */
export function attributeOf(path: string, name: string): string | undefined {
  const [p, n, value] = [cString(path), cString(name), Buffer.alloc(ATTRIBUTE_MAX_BYTES)];
  const length = Number(libc().lgetxattr(pointerTo(p), pointerTo(n), pointerTo(value), BigInt(value.length)));
  if (length >= 0) return value.toString("latin1", 0, length);
  const number = errorNumber();
  return number === ENODATA ? undefined : failed(`reading ${name} of ${path}`, number);
}

/** Without following links. The path may be any bytes. False: the file lacks the attribute. */
export function removeAttribute(path: Buffer, name: string): boolean {
  const [p, n] = [Buffer.concat([path, Buffer.alloc(1)]), cString(name)];
  if (libc().lremovexattr(pointerTo(p), pointerTo(n)) === 0) return true;
  const number = errorNumber();
  return number === ENODATA ? false : failed(`removing ${name} of ${path}`, number);
}

/** The parts of an open file that are not holes: offset and length of each. */
export function* dataIn(fd: number): Generator<[offset: number, length: number]> {
  for (let end = 0; ; ) {
    const offset = Number(libc().lseek(fd, BigInt(end), SEEK_DATA));
    if (offset < 0) {
      const number = errorNumber();
      if (number === ENXIO) return;
      failed("looking for data in a file", number);
    }
    end = Number(libc().lseek(fd, BigInt(offset), SEEK_HOLE));
    if (end < 0) failed("looking for a hole in a file");
    yield [offset, end - offset];
  }
}

/** Copies a range between two open files, by sharing blocks where the filesystem can. */
export function copyRange(source: number, from: number, target: number, to: number, length: number): void {
  const places = new BigInt64Array([BigInt(from), BigInt(to)]);
  for (let left = length; left > 0; ) {
    const [at, there] = [pointerTo(places), pointerTo(places, places.BYTES_PER_ELEMENT)];
    const copied = Number(libc().copy_file_range(source, at, target, there, BigInt(left), 0));
    if (copied < 0) failed("copy_file_range");
    if (copied === 0) throw new Fault(500, `a file ended ${left} bytes before the end of what was to be copied`);
    left -= copied;
  }
}

/** Makes `target` share the blocks of `source`; false where the filesystem cannot. */
export function reflink(source: string, target: string): boolean {
  const sourceFd = openSync(source, "r");
  try {
    const targetFd = openSync(target, "w", 0o600);
    try {
      return libc().ioctl(targetFd, FICLONE, BigInt(sourceFd)) === 0;
    } finally {
      closeSync(targetFd);
    }
  } finally {
    closeSync(sourceFd);
  }
}

export function syncFilesystem(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    if (libc().syncfs(fd) !== 0) failed(`syncfs ${folder}`);
  } finally {
    closeSync(fd);
  }
}

/** The mapped files of this thread, by path. */
const heldInMemory = new Map<string, { at: bigint; size: number }[]>();

/**
 * Reads a file into memory, in huge pages where its filesystem has them, and locks it there until this process ends or
 * `unlockMemory`. False: the file was read, but the kernel may drop it, because the locked-memory limit is too low.
 */
export function holdInMemory(path: string): boolean {
  const fd = openSync(path, "r");
  try {
    const { size } = fstatSync(fd);
    if (size === 0) return true;
    const at = libc().mmap(null, BigInt(size), PROT_READ, MAP_SHARED, fd, 0n);
    if (at === -1n) failed(`mapping ${path}`);
    // Both are hints; the lock reads the rest in any case.
    for (const advice of [MADV_HUGEPAGE, MADV_POPULATE_READ]) libc().madvise(at, BigInt(size), advice);
    heldInMemory.set(path, [...(heldInMemory.get(path) ?? []), { at, size }]);
    return libc().mlock(at, BigInt(size)) === 0;
  } finally {
    closeSync(fd);
  }
}

/** Unmaps all files below a folder that this thread holds. The files may be gone. */
export function unlockMemory(folder: string): void {
  for (const [path, maps] of heldInMemory) {
    if (!path.startsWith(`${folder}/`)) continue;
    heldInMemory.delete(path);
    for (const { at, size } of maps) if (libc().munmap(at, BigInt(size)) !== 0) failed(`letting go of ${path}`);
  }
}

/** An exclusive lock that the kernel releases when this process ends, if it was not released before. */
export interface FileLock extends Disposable {
  path: string;
  /** False: the file was removed, and perhaps recreated, before the lock was acquired. */
  isCurrent(): boolean;
}

function lockOn(fd: number, path: string): FileLock {
  return {
    path,
    isCurrent: () => statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino,
    [Symbol.dispose]: () => closeSync(fd),
  };
}

/** Waits for a lock that is only held for a moment at a time. */
export function waitForLock(path: string): FileLock {
  const fd = openSync(path, "a", 0o600);
  if (libc().flock(fd, LOCK_EX) !== 0) failed(`locking ${path}`);
  return lockOn(fd, path);
}

/** Undefined when another process holds it. */
export function takeLock(path: string): FileLock | undefined {
  const fd = openSync(path, "a", 0o600);
  if (libc().flock(fd, LOCK_EX_NB) === 0) return lockOn(fd, path);
  const code = errorNumber();
  closeSync(fd);
  if (code === EAGAIN) return undefined;
  failed(`locking ${path}`, code);
}

/** `pointerTo` holds only a few. */
const argumentsHeld: Uint8Array[] = [];

/** Replaces this process: same pid, same terminal, other program. */
export function replaceProcess(argv: readonly string[], env: Record<string, string>): never {
  const vector = (items: readonly string[]): Uint8Array => {
    const pointers = new BigUint64Array(items.length + 1);
    items.forEach((item, index) => {
      const bytes = cString(item);
      argumentsHeld.push(bytes);
      pointers[index] = BigInt(pointerTo(bytes));
    });
    return new Uint8Array(pointers.buffer);
  };
  const program = cString(argv[0] ?? "");
  const args = vector(argv);
  const variables = vector(Object.entries(env).map(([name, value]) => `${name}=${value}`));
  libc().execve(pointerTo(program), pointerTo(args), pointerTo(variables));
  failed(`exec ${argv[0]}`);
}

/** Applies to the calling thread. */
export function setIpcNamespace(fd: number): void {
  if (libc().setns(fd, CLONE_NEWIPC) !== 0) failed("setns of an IPC namespace");
}

/** Sockets that preserve message boundaries. A child process inherits one only if it is passed explicitly. */
export function socketPair(): [number, number] {
  const pair = new Int32Array(2);
  if (libc().socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pointerTo(pair)) !== 0) failed("socketpair");
  return [pair[0] as number, pair[1] as number];
}
