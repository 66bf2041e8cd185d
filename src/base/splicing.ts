/**
 * Bytes that go from one connection to another without being read: what who has the connections asks of who can have
 * the kernel move them.
 */

/** Descriptors of two connections. They stay the asker's, who may close them at any time. */
export interface Way {
  from: number;
  to: number;
  bytes: number;
  /**
   * The bytes are the rest of a chunk of HTTP, without the line end behind it. Chunks that follow go with it, with what
   * is between them, as long as they come, are long, and are written in the usual way. The last one is left.
   */
  inChunks?: boolean;
  /** Which of the two `cut` breaks. */
  cuts: "from" | "to";
}

/** What came of it. */
export interface Spliced {
  taken: number;
  /** If fewer than were taken, the others are lost. */
  given: number;
  /** All bytes were given; in chunks, so was the last chunk that was begun. */
  isWhole: boolean;
  /** Nothing was taken because it cannot be done: the bytes are to be carried in another way. */
  couldNot: boolean;
}

/** Bytes that are being moved. */
export interface Splicing {
  /** No more of them are, soon. */
  stop(): void;
  /** The same, and one of the connections is reset when this returns, whoever else has descriptors of it. */
  cut(): void;
}

export interface Splice {
  /** Calls `over` once, later. Undefined: not now, and it is not called. */
  begin(way: Way, over: (spliced: Spliced) => void): Splicing | undefined;
}
