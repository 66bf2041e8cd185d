/**
 * Dangerous: the system calls that take mounts by descriptor, which no tool of stable distributions knows. They have
 * the same numbers on every processor. To be called from the mount worker only, with paths that are ours.
 */
import { FFIType, ptr } from "bun:ffi";
import { closeSync } from "node:fs";
import { Fault } from "../../contract/fault.ts";
import { cString, errorNumber, onFirstUse, SystemError } from "../../work/c-library.ts";
import { detachMount } from "./syscalls.ts";

const { i64 } = FFIType;
const libc = onFirstUse({ syscall: { args: [i64, i64, i64, i64, i64, i64], returns: i64 } });

const OPEN_TREE = 428n;
const MOVE_MOUNT = 429n;
const MOUNT_SETATTR = 442n;

const AT_FDCWD = -100n;
const AT_EMPTY_PATH = 0x1000n;
const OPEN_TREE_CLONE = 1n;
const OPEN_TREE_CLOEXEC = 0o2000000n;
const MOVE_MOUNT_F_EMPTY_PATH = 4n;

export const MOUNT_ATTR_RDONLY = 1n;
export const MOUNT_ATTR_NOSUID = 2n;
export const MOUNT_ATTR_NODEV = 4n;
const MOUNT_ATTR_IDMAP = 0x100000n;

function call(name: string, number: bigint, ...args: [bigint, bigint, bigint, bigint, bigint]): number {
  const result = Number(libc().syscall(number, ...args));
  if (result >= 0) return result;
  const cause = new SystemError(name, errorNumber());
  throw new Fault(500, cause.message, { cause });
}

/**
 * A path at which this folder can be read and run from, and not be changed, by whoever gets there; for as long as this
 * process is there. It is mounted nowhere.
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
 * Shows what lies at `source` at `target` as well, with these attributes. Through it owners are mapped as in the user
 * namespace `users`: an id on the disk is taken for one of that namespace.
 */
export function showAt(source: string, target: string, attributes: bigint, users: number): void {
  withClone(source, attributes, users, (tree) => place(tree, target));
}

/** The same for a mount that nobody uses yet, in its own place. */
export function mapInPlace(target: string, attributes: bigint, users: number): void {
  withClone(target, attributes, users, (tree) => {
    detachMount(target);
    place(tree, target);
  });
}

/** What is not placed anywhere goes again. */
function withClone(source: string, attributes: bigint, users: number, use: (tree: number) => void): void {
  const [from, empty] = [cString(source), cString("")];
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  const tree = call(`open_tree ${source}`, OPEN_TREE, AT_FDCWD, BigInt(ptr(from)), flags, 0n, 0n);
  try {
    // What to set, what to clear, how to propagate, and the namespace.
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
