/**
 * Bytes that pass through leave garbage, and JavaScript's collector is in no hurry while the machine has memory left.
 * Inside of a small sandbox the guest's garbage is the user's memory, so it is freed by hand where that is safe, and
 * collected after every so many bytes where it is not.
 */

/** Bytes carried between two collections of the guest's garbage. */
const GARBAGE_MAX_BYTES = 16 * 1024 * 1024;
/** What requests leave is collected after so long. */
export const GARBAGE_WAITS_MS = 30_000;
/** A smaller piece is not worth the work of freeing it by hand. */
const DISCARDED_PIECE_MIN_BYTES = 16 * 1024;

let sinceLastCollection = 0;
let isDue = false;

/** For what a request leaves. Where none comes, nothing is collected: an idle guest does nothing at all. */
export function collectLater(): void {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    Bun.gc(false);
  }, GARBAGE_WAITS_MS).unref();
}

export function noteGarbage(bytes: number): void {
  sinceLastCollection += bytes;
  if (sinceLastCollection < GARBAGE_MAX_BYTES) return;
  sinceLastCollection = 0;
  Bun.gc(true);
}

/**
 * For a piece of a body that nobody reads any more: its memory is free at once, and it is empty afterwards. A piece of
 * a larger buffer is left to the collector, for somebody else may hold another part.
 */
export function discard(piece: Uint8Array): void {
  const { buffer, length } = piece;
  const isWhole = length === buffer.byteLength && buffer instanceof ArrayBuffer;
  if (isWhole && length >= DISCARDED_PIECE_MIN_BYTES) buffer.transfer(0);
  else noteGarbage(length);
}
