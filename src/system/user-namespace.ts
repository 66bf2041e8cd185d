/**
 * Dangerous: user namespaces without a process, made with clone(2) through bun:ffi. Such a namespace is only an id
 * mapping table for a mount. Tools can only make one with a process of its own, which takes many times as long. To be
 * called from the mount worker only.
 */
import { FFIType } from "bun:ffi";
import { openSync, writeFileSync } from "node:fs";
import { callResult, onFirstUse, pointerTo, SystemError } from "../base/c-library.ts";
import { Fault } from "../contract/fault.ts";

const libc = onFirstUse({
  clone: { args: [FFIType.u64, FFIType.u64, FFIType.i32, FFIType.u64], returns: FFIType.i32 },
  waitpid: { args: [FFIType.i32, FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
  _exit: { args: [FFIType.i32], returns: FFIType.void },
});

const CLONE_VM = 0x100;
const CLONE_VFORK = 0x4000;
const CLONE_NEWUSER = 0x10000000;
/** Also waits for a child that ends without a signal, which no other code waits for. */
const WAIT_ALL = 0x40000000;

const STACK_BYTES = 64 * 1024;
const STACK_ALIGNMENT = 16n;
const stack = new Uint8Array(STACK_BYTES);

/** A line of the table: `count` ids from `inside` on are the machine's ids from `outside` on. */
export interface IdLine {
  inside: number;
  outside: number;
  count: number;
}

/**
 * Returns the descriptor of a namespace with this table; a mount keeps the namespace alive. A child that shares our
 * memory makes it and exits at once, on its own stack, while this thread waits. Until it is waited for, the child, and
 * so its namespace, can be opened through /proc.
 */
export function openUserNamespace(table: readonly IdLine[]): number {
  const { clone, waitpid, _exit } = libc();
  const end = (_exit as unknown as { ptr: number }).ptr;
  const top = ((BigInt(pointerTo(stack)) + BigInt(STACK_BYTES)) / STACK_ALIGNMENT) * STACK_ALIGNMENT;
  const child = callResult("clone", () => clone(BigInt(end), top, CLONE_NEWUSER | CLONE_VM | CLONE_VFORK, 0n));
  if (child instanceof SystemError) {
    throw new Fault(500, `a user namespace could not be made: ${child.message}`, { cause: child });
  }
  try {
    const lines = table.map(({ inside, outside, count }) => `${inside} ${outside} ${count}\n`).join("");
    for (const kind of ["uid", "gid"]) writeFileSync(`/proc/${child}/${kind}_map`, lines);
    return openSync(`/proc/${child}/ns/user`, "r");
  } finally {
    waitpid(child, null, WAIT_ALL);
  }
}
