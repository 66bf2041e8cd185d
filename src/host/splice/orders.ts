/** What the thread that moves bytes is told, and what it tells. */

/** A transfer that is to begin; without bytes, one that is to be given up. */
export interface Order {
  number: number;
  from: number;
  to: number;
  bytes: number;
}

/** How a transfer ended. Whole: as many bytes were given as were ordered. */
export interface Outcome {
  number: number;
  taken: number;
  given: number;
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
export const END: Order = { number: 0, from: -1, to: -1, bytes: 0 };

const WORDS = 4;
export const ORDER_BYTES = WORDS * Float64Array.BYTES_PER_ELEMENT;

export function writtenOrder({ number, from, to, bytes }: Order): Uint8Array {
  return new Uint8Array(Float64Array.of(number, from, to, bytes).buffer);
}

/** Of the bytes that were read; there are never parts of an order among them. */
export function readOrders(bytes: Uint8Array): Order[] {
  // A copy of its own, at the start of its buffer.
  const words = new Float64Array(Uint8Array.from(bytes).buffer);
  const at = (index: number) => words[index] ?? 0;
  return Array.from({ length: words.length / WORDS }, (_, index) => {
    const first = index * WORDS;
    return { number: at(first), from: at(first + 1), to: at(first + 2), bytes: at(first + 3) };
  });
}
