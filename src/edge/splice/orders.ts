/** What the thread that moves bytes is told, and what it tells. */

/** A transfer that is to begin; without bytes, one that is to be given up. */
export interface Order {
  number: number;
  from: number;
  to: number;
  bytes: number;
  /** The bytes end a chunk, and go on with the chunks that follow. */
  inChunks: boolean;
}

/** How a transfer ended. */
export interface Outcome {
  number: number;
  taken: number;
  given: number;
  /** All that was ordered was given, to the end of a chunk if it is in chunks. */
  isWhole: boolean;
  /** The kernel's number of what went wrong; 0: nothing, or the source has ended. */
  error: number;
}

/** The thread is there, and takes orders. */
export const READY = "ready";

export interface SpliceThreadData {
  /** Where orders are read. */
  orders: number;
}

/** The thread is to end. */
export const END: Order = { number: 0, from: -1, to: -1, bytes: 0, inChunks: false };

const WORDS = 5;
export const ORDER_BYTES = WORDS * Float64Array.BYTES_PER_ELEMENT;

export function writtenOrder({ number, from, to, bytes, inChunks }: Order): Uint8Array {
  return new Uint8Array(Float64Array.of(number, from, to, bytes, inChunks ? 1 : 0).buffer);
}

/** Of the bytes that were read; there are never parts of an order among them. */
export function readOrders(bytes: Uint8Array): Order[] {
  // A copy of its own, at the start of its buffer.
  const words = new Float64Array(Uint8Array.from(bytes).buffer);
  const at = (index: number) => words[index] ?? 0;
  return Array.from({ length: words.length / WORDS }, (_, index) => {
    const first = index * WORDS;
    const inChunks = at(first + 4) === 1;
    return { number: at(first), from: at(first + 1), to: at(first + 2), bytes: at(first + 3), inChunks };
  });
}
