/** Frees body pieces explicitly: JavaScript's collector would let tens of MiB gather before it runs. */

/** Smaller pieces are not worth freeing explicitly. */
const EDGE_RELEASED_PIECE_MIN_BYTES = 16 * 1024;

/**
 * Frees the whole buffer of a piece that is no longer read; no other code may hold any part of it. The piece is empty
 * afterwards. A short buffer is detected without accessing `buffer`, which would create an object.
 */
export function releaseBufferOf(piece: Uint8Array<ArrayBuffer> | undefined): void {
  if (piece === undefined || piece.byteOffset + piece.length < EDGE_RELEASED_PIECE_MIN_BYTES) return;
  piece.buffer.transfer(0);
}
