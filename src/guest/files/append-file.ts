/**
 * Appends one open file to another in the kernel (copy_file_range, or Bun's fallback between file systems without it),
 * on a thread of Bun's pool. On the event loop's thread, a busy disk would block every request of the sandbox.
 */
import type { FileHandle } from "node:fs/promises";

/**
 * Copies from the source's position to its current end and advances both positions; returns the number of bytes.
 * Neither file may be closed before it settles.
 */
export type CopyPart = (source: FileHandle, target: FileHandle) => Promise<number>;

export const copyPart: CopyPart = (source, target) => Bun.write(Bun.file(target.fd), Bun.file(source.fd));

/**
 * Appends everything from the source's position to its end; returns the number of bytes. A source that grows while it
 * is read is abandoned once it exceeds the expected size. A file of size zero may still have content (/proc), so it is
 * read anyway.
 */
export async function append(
  source: FileHandle,
  target: FileHandle,
  expected: number,
  signal: AbortSignal,
  copy: CopyPart,
): Promise<number> {
  let copied = 0;
  while (copied <= expected || expected === 0) {
    signal.throwIfAborted();
    const length = await copy(source, target);
    if (length === 0) break;
    copied += length;
  }
  return copied;
}
