/**
 * Dangerous: mount system calls that work on descriptors, which no tool of stable distributions offers. Their numbers
 * are the same on every architecture. To be called from the mount worker only, with paths of the server.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { cString, errorNumber, onFirstUse, SystemError } from "../base/c-library.ts";
import { Fault } from "../contract/fault.ts";
import { detachMount } from "./syscalls.ts";

const { i32, i64, u32 } = FFIType;
const libc = onFirstUse({
  syscall: { args: [i64, i64, i64, i64, i64, i64], returns: i64 },
  statx: { args: [i32, FFIType.ptr, i32, u32, FFIType.ptr], returns: i32 },
});

const OPEN_TREE = 428n;
const MOVE_MOUNT = 429n;
const MOUNT_SETATTR = 442n;
const STATMOUNT = 457n;

const AT_FDCWD = -100n;
const AT_EMPTY_PATH = 0x1000n;
const OPEN_TREE_CLONE = 1n;
const OPEN_TREE_CLOEXEC = 0o2000000n;
const MOVE_MOUNT_F_EMPTY_PATH = 4n;

export const MOUNT_ATTR_RDONLY = 1n;
export const MOUNT_ATTR_NOSUID = 2n;
export const MOUNT_ATTR_NODEV = 4n;
const MOUNT_ATTR_IDMAP = 0x100000n;

/** statx: the request for a file's unique mount id, and its offset in the result. */
const STATX_MNT_ID_UNIQUE = 0x4000;
const FILE_FACTS_BYTES = 256;
const FILE_MOUNT_AT = 144;
/** statmount: the request for the flags and options of a mount's filesystem. */
const STATMOUNT_SB_BASIC = 0x1n;
const STATMOUNT_MNT_OPTS = 0x80n;
const MOUNT_QUESTION_BYTES = 24n;
const MOUNT_FACTS_BYTES = 16 * 1024;
const OPTIONS_OFFSET_AT = 4;
const ANSWERED_AT = 8;
const FLAGS_AT = 32;
const TEXT_AT = 512;
const SB_RDONLY = 1;

function call(name: string, number: bigint, ...args: [bigint, bigint, bigint, bigint, bigint]): number {
  const result = Number(libc().syscall(number, ...args));
  if (result >= 0) return result;
  const cause = new SystemError(name, errorNumber());
  throw new Fault(500, cause.message, { cause });
}

/**
 * A path at which this folder can be read and executed but not changed, while this process lives. It is mounted
 * nowhere.
 */
export function readOnlyView(folder: string): string {
  const [from, empty] = [cString(folder), cString("")];
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  const tree = call(`open_tree ${folder}`, OPEN_TREE, AT_FDCWD, BigInt(ptr(from)), flags, 0n, 0n);
  try {
    const change = new BigUint64Array([MOUNT_ATTR_RDONLY, 0n, 0n, 0n]);
    const of = [BigInt(tree), BigInt(ptr(empty)), AT_EMPTY_PATH] as const;
    call(`mount_setattr ${folder}`, MOUNT_SETATTR, ...of, BigInt(ptr(change)), BigInt(change.byteLength));
  } catch (cause) {
    closeSync(tree);
    throw cause;
  }
  return `/proc/${process.pid}/fd/${tree}`;
}

/**
 * Options of the filesystem mounted at a path, as in the last column of mountinfo, which has a line for every mount of
 * every sandbox. Undefined: the kernel is older than Linux 6.11, there are none, or they are too long.
 */
export function filesystemOptions(path: string): string[] | undefined {
  const [name, file] = [cString(path), Buffer.alloc(FILE_FACTS_BYTES)];
  if (libc().statx(Number(AT_FDCWD), ptr(name), 0, STATX_MNT_ID_UNIQUE, ptr(file)) !== 0) return undefined;
  if ((file.readUInt32LE(0) & STATX_MNT_ID_UNIQUE) === 0) return undefined;
  const wanted = STATMOUNT_SB_BASIC | STATMOUNT_MNT_OPTS;
  const question = new BigUint64Array([MOUNT_QUESTION_BYTES, file.readBigUInt64LE(FILE_MOUNT_AT), wanted]);
  const facts = Buffer.alloc(MOUNT_FACTS_BYTES);
  const to = [BigInt(ptr(facts)), BigInt(facts.length), 0n, 0n] as const;
  if (Number(libc().syscall(STATMOUNT, BigInt(ptr(question)), ...to)) !== 0) return undefined;
  if ((facts.readBigUInt64LE(ANSWERED_AT) & wanted) !== wanted) return undefined;
  const from = TEXT_AT + facts.readUInt32LE(OPTIONS_OFFSET_AT);
  const options = facts.toString("utf8", from, facts.indexOf(0, from));
  return [(facts.readUInt32LE(FLAGS_AT) & SB_RDONLY) === 0 ? "rw" : "ro", ...options.split(",")];
}

/**
 * Mounts `source` at `target` as well, with these attributes. Owners are mapped as in the user namespace `users`: an id
 * on the disk is taken as an id of that namespace.
 */
export function showAt(source: string, target: string, attributes: bigint, users: number): void {
  withClone(source, attributes, users, (tree) => place(tree, target));
}

/** Replaces an unused mount by a mapped one at the same path. */
export function mapInPlace(target: string, attributes: bigint, users: number): void {
  withClone(target, attributes, users, (tree) => {
    detachMount(target);
    place(tree, target);
  });
}

/** A clone that `use` does not place disappears when its descriptor closes. */
function withClone(source: string, attributes: bigint, users: number, use: (tree: number) => void): void {
  const [from, empty] = [cString(source), cString("")];
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  const tree = call(`open_tree ${source}`, OPEN_TREE, AT_FDCWD, BigInt(ptr(from)), flags, 0n, 0n);
  try {
    // Attributes to set, to clear, the propagation, and the namespace.
    const change = new BigUint64Array([attributes | MOUNT_ATTR_IDMAP, 0n, 0n, BigInt(users)]);
    const of = [BigInt(tree), BigInt(ptr(empty)), AT_EMPTY_PATH] as const;
    call(`mount_setattr ${source}`, MOUNT_SETATTR, ...of, BigInt(ptr(change)), BigInt(change.byteLength));
    use(tree);
  } finally {
    closeSync(tree);
  }
}

function place(tree: number, target: string): void {
  const [to, empty] = [cString(target), cString("")];
  const from = [BigInt(tree), BigInt(ptr(empty))] as const;
  call(`move_mount ${target}`, MOVE_MOUNT, ...from, AT_FDCWD, BigInt(ptr(to)), MOVE_MOUNT_F_EMPTY_PATH);
}
