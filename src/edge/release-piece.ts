/**
 * A piece of a body that has been passed on would wait for JavaScript's collector, which lets tens of MiB gather before
 * it comes.
 */
import { EDGE_RELEASED_PIECE_MIN_BYTES } from "./limits.ts";

/**
 * Frees the memory of a piece at once. Only for a piece that nobody reads any more: it is empty afterwards. One that is
 * part of a larger buffer is left to the collector, for somebody else may hold the other part.
 */
export function releasePiece(piece: Uint8Array<ArrayBuffer> | undefined): void {
  if (piece === undefined || piece.length < EDGE_RELEASED_PIECE_MIN_BYTES) return;
  if (piece.length === piece.buffer.byteLength) piece.buffer.transfer(0);
}

/** The same for a piece that may be only a part, of a buffer that nobody else holds any part of. */
export function releaseBufferOf(piece: Uint8Array<ArrayBuffer> | undefined): void {
  if (piece !== undefined && piece.buffer.byteLength >= EDGE_RELEASED_PIECE_MIN_BYTES) piece.buffer.transfer(0);
}
