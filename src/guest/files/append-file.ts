/**
 * The bytes of one open file put behind those of another by the kernel (copy_file_range, or what Bun does where two
 * file systems have no such way between them), on a thread of Bun's pool. On the event loop's own thread it would hold
 * up every request of the sandbox while a disk is busy with earlier writes.
 */
import type { FileHandle } from "node:fs/promises";

/**
 * Copies from the source's position to the end that it has at this moment, and moves both positions; returns how many
 * bytes it were. Neither file may be closed before it settles.
 */
export type CopyPart = (source: FileHandle, target: FileHandle) => Promise<number>;

export const copyPart: CopyPart = (source, target) => Bun.write(Bun.file(target.fd), Bun.file(source.fd));

/**
 * All from the source's position to its end; returns how many bytes it were. A source that grows as it is read is given
 * up once it is longer than was expected; one of zero bytes may have content all the same (/proc), which only reading
 * shows.
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
