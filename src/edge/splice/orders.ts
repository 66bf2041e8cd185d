/** Messages to and from the splice thread. */

/** Concurrent splices of an edge process; it copies all other bodies itself. */
export const SPLICES_MAX = 16;
/** Idle pipes kept for later splices. */
export const SPLICE_IDLE_PIPES_MAX = 4;

/** Starts a transfer; without bytes, stops it. */
export interface Order {
  number: number;
  from: number;
  to: number;
  bytes: number;
  /** The bytes end a chunk, and the following chunks are moved too. */
  inChunks: boolean;
}

/** How a transfer ended. */
export interface TransferResult {
  number: number;
  taken: number;
  given: number;
  /** All requested bytes were delivered; with chunks, up to the end of a chunk's content. */
  isWhole: boolean;
  /** The errno of a failure; 0: none, or the source has ended. */
  error: number;
}

/** The thread has started and takes orders. */
export const READY = "ready";

/** Ends the thread. */
export const END: Order = { number: 0, from: -1, to: -1, bytes: 0, inChunks: false };

const WORDS = 5;
export const ORDER_BYTES = WORDS * Float64Array.BYTES_PER_ELEMENT;

export function writtenOrder({ number, from, to, bytes, inChunks }: Order): Uint8Array {
  return new Uint8Array(Float64Array.of(number, from, to, bytes, Number(inChunks)).buffer);
}

/** Parses whole orders; a read never returns part of one. */
export function readOrders(bytes: Uint8Array): Order[] {
  // A copy, aligned at the start of its buffer.
  const words = new Float64Array(Uint8Array.from(bytes).buffer);
  const at = (index: number) => words[index] ?? 0;
  return Array.from({ length: words.length / WORDS }, (_, index) => {
    const first = index * WORDS;
    const inChunks = at(first + 4) === 1;
    return { number: at(first), from: at(first + 1), to: at(first + 2), bytes: at(first + 3), inChunks };
  });
}
