/**
 * Garbage collection of the guest. Bytes that pass through leave garbage, and JavaScript's collector waits while the
 * machine has free memory. In a small sandbox that memory is the user's, so the guest frees buffers explicitly where
 * that is safe, and otherwise collects after a fixed number of bytes.
 */

/** Bytes carried between two garbage collections. */
const GARBAGE_MAX_BYTES = 16 * 1024 * 1024;
/** Delay before garbage of requests is collected. */
export const GARBAGE_WAITS_MS = 30_000;
/** Smaller pieces are not worth freeing explicitly. */
const DISCARDED_PIECE_MIN_BYTES = 16 * 1024;

let sinceLastCollection = 0;
let isDue = false;

/** Schedules a collection after a request. Without requests nothing is scheduled, so an idle guest does no work. */
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
 * Frees the memory of a piece that is no longer read; the piece is empty afterwards. A piece of a larger buffer is left
 * to the collector, because other code may hold another part.
 */
export function discard(piece: Uint8Array): void {
  const { buffer, length } = piece;
  const isWhole = length === buffer.byteLength && buffer instanceof ArrayBuffer;
  if (isWhole && length >= DISCARDED_PIECE_MIN_BYTES) buffer.transfer(0);
  else noteGarbage(length);
}
