/**
 * Bytes that go from one connection to another without being read: what who has the connections asks of who can have
 * the kernel move them.
 */

/** Descriptors of two connections. They stay the asker's, who may close them at any time. */
export interface Way {
  from: number;
  to: number;
  bytes: number;
  /** Which of the two `cut` breaks. */
  cuts: "from" | "to";
}

/** What came of it: whole if all bytes were given. */
export interface Spliced {
  taken: number;
  /** If fewer than were taken, the others are lost. */
  given: number;
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
