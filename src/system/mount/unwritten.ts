/** How much of a file is in memory and not yet on the disk. */
import { FFIType } from "bun:ffi";
import { onFirstUse, pointerTo } from "../../base/c-library.ts";
import { pageSize } from "../page-size.ts";

/** The same number on every architecture. */
const CACHESTAT = 451n;
/** Page counts in the result: cached, dirty, in writeback; two more follow. */
const ANSWER_NUMBERS = 5;

const libc = onFirstUse({
  syscall: { args: [FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64, FFIType.i64], returns: FFIType.i64 },
});

/** In bytes; undefined on a kernel before Linux 6.5. The kernel visits each cached page. */
export function unwrittenBytes(file: number): number | undefined {
  // The whole file.
  const range = new BigUint64Array([0n, 0n]);
  const answer = new BigUint64Array(ANSWER_NUMBERS);
  if (libc().syscall(CACHESTAT, BigInt(file), BigInt(pointerTo(range)), BigInt(pointerTo(answer)), 0n) !== 0n)
    return undefined;
  const [, changed = 0n, beingWritten = 0n] = answer;
  return Number(changed + beingWritten) * pageSize();
}
