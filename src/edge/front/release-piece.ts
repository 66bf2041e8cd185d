/**
 * A piece of a body that has been passed on would wait for JavaScript's collector, which lets tens of MiB gather before
 * it comes.
 */

/** A smaller piece is not worth the work of freeing it by hand. */
const EDGE_RELEASED_PIECE_MIN_BYTES = 16 * 1024;

/**
 * Frees the memory of a piece at once: of its whole buffer, of which nobody else may hold any part. Only for a piece
 * that nobody reads any more: it is empty afterwards. That a buffer is short is seen without asking for it, for which
 * an object would be made.
 */
export function releaseBufferOf(piece: Uint8Array<ArrayBuffer> | undefined): void {
  if (piece === undefined || piece.byteOffset + piece.length < EDGE_RELEASED_PIECE_MIN_BYTES) return;
  piece.buffer.transfer(0);
}
