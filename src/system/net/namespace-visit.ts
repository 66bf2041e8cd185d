/**
 * Dangerous: a thread in the network namespace of a sandbox, for a moment. Only for threads of their own kind: what
 * runs on the same thread meanwhile, or after one that did not come back, would happen to a sandbox instead of the
 * machine.
 */
import { FFIType } from "bun:ffi";
import { closeSync, openSync } from "node:fs";
import { errorNumber, onFirstUse, SystemError } from "../../base/c-library.ts";

/** How often a thread tries to come back from the network of a sandbox. */
const RETURN_TRIES_MAX = 1000;

const libc = onFirstUse({ setns: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } });

const CLONE_NEWNET = 0x40000000;

/** The thread could not come back. It has to end. */
export class Stranded extends Error {
  override readonly name = "Stranded";
}

/** `fd` is the open namespace. The work ends before this does. */
export function visit<T>(fd: number, work: () => T): T {
  const own = openSync("/proc/thread-self/ns/net", "r");
  try {
    if (libc().setns(fd, CLONE_NEWNET) !== 0) throw new SystemError("setns", errorNumber());
    try {
      return work();
    } finally {
      comeBack(own);
    }
  } finally {
    closeSync(own);
  }
}

/** It takes memory, of which there may be none for a moment. */
function comeBack(own: number): void {
  for (let tries = 0; tries < RETURN_TRIES_MAX; tries++) if (libc().setns(own, CLONE_NEWNET) === 0) return;
  const { message } = new SystemError("setns", errorNumber());
  throw new Stranded(`a thread could not leave a sandbox's network namespace: ${message}`);
}
