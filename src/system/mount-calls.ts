/**
 * Dangerous: mount system calls that work on descriptors, which no tool of stable distributions offers. Their numbers
 * are the same on every architecture. To be called from the mount worker only, with paths of the server.
 */
import { FFIType } from "bun:ffi";
import { closeSync } from "node:fs";
import { cString, errorNumber, onFirstUse, pointerTo, SystemError } from "../base/c-library.ts";
import { Fault } from "../contract/fault.ts";
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

/** A path, while this process lives, at which the folder can be executed but not changed. */
export function readOnlyView(folder: string): string {
  const tree = clone(folder);
  try {
    setAttributes(tree, folder, MOUNT_ATTR_RDONLY);
  } catch (cause) {
    closeSync(tree);
    throw cause;
  }
  return `/proc/${process.pid}/fd/${tree}`;
}

/** Mounts `source` at `target`, too. An id on the disk is taken as an id of the user namespace `users`. */
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
  const tree = clone(source);
  try {
    setAttributes(tree, source, attributes | MOUNT_ATTR_IDMAP, users);
    use(tree);
  } finally {
    closeSync(tree);
  }
}

function clone(source: string): number {
  const from = cString(source);
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  return call(`open_tree ${source}`, OPEN_TREE, AT_FDCWD, BigInt(pointerTo(from)), flags, 0n, 0n);
}

function setAttributes(tree: number, source: string, attributes: bigint, users = 0): void {
  // Attributes to set, to clear, the propagation, and the namespace.
  const [change, empty] = [new BigUint64Array([attributes, 0n, 0n, BigInt(users)]), cString("")];
  const of = [BigInt(tree), BigInt(pointerTo(empty)), AT_EMPTY_PATH] as const;
  call(`mount_setattr ${source}`, MOUNT_SETATTR, ...of, BigInt(pointerTo(change)), BigInt(change.byteLength));
}

function place(tree: number, target: string): void {
  const [to, empty] = [cString(target), cString("")];
  const from = [BigInt(tree), BigInt(pointerTo(empty))] as const;
  call(`move_mount ${target}`, MOVE_MOUNT, ...from, AT_FDCWD, BigInt(pointerTo(to)), MOVE_MOUNT_F_EMPTY_PATH);
}
