/**
 * Dangerous: moves a thread into the network namespace of a sandbox for a moment. Only for dedicated threads: other
 * code on the same thread, during the visit or after a failed return, would act on a sandbox instead of the machine.
 */
import { FFIType } from "bun:ffi";
import { closeSync, openSync } from "node:fs";
import { errorNumber, onFirstUse, SystemError } from "../../base/c-library.ts";

/** How often a thread tries to return from a sandbox's network namespace. */
const RETURN_TRIES_MAX = 1000;

const libc = onFirstUse({ setns: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } });

const CLONE_NEWNET = 0x40000000;

/** The thread could not return and has to end. */
export class NamespaceNotRestored extends Error {
  override readonly name = "NamespaceNotRestored";
}

/** `fd` is the open namespace. The work must be synchronous. */
export function visit<T>(fd: number, work: () => T): T {
  const own = openSync("/proc/thread-self/ns/net", "r");
  try {
    if (libc().setns(fd, CLONE_NEWNET) !== 0) throw new SystemError("setns", errorNumber());
    try {
      return work();
    } finally {
      returnToNamespace(own);
    }
  } finally {
    closeSync(own);
  }
}

/** setns needs memory, which may be unavailable for a moment. */
function returnToNamespace(own: number): void {
  for (let tries = 0; tries < RETURN_TRIES_MAX; tries++) if (libc().setns(own, CLONE_NEWNET) === 0) return;
  const { message } = new SystemError("setns", errorNumber());
  throw new NamespaceNotRestored(`a thread could not leave a sandbox's network namespace: ${message}`);
}
