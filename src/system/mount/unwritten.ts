/** How much of a file is in memory and not on the disk yet. */
import { FFIType, ptr } from "bun:ffi";
import { onFirstUse } from "../../base/c-library.ts";
import { pageSize } from "../page-size.ts";

/** The same number on every processor. */
const CACHESTAT = 451n;
/** Numbers of pages in the answer: in memory, changed, and being written; two more follow. */
const ANSWER_NUMBERS = 5;

const libc = onFirstUse({
  syscall: { args: [FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64], returns: FFIType.i64 },
});

/** In bytes; undefined on a kernel that does not tell, before Linux 6.5. It looks at each page that is in memory. */
export function unwrittenBytes(file: number): number | undefined {
  // From the beginning to the end.
  const range = new BigUint64Array([0n, 0n]);
  const answer = new BigUint64Array(ANSWER_NUMBERS);
  if (libc().syscall(CACHESTAT, BigInt(file), BigInt(ptr(range)), BigInt(ptr(answer)), 0n) !== 0n) return undefined;
  const [, changed = 0n, beingWritten = 0n] = answer;
  return Number(changed + beingWritten) * pageSize();
}
