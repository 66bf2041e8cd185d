/**
 * Interface for moving bytes between two connections inside the kernel, without reading them. The owner of the
 * connections asks; the splicer moves.
 */

/** Descriptors of two connections. They still belong to the caller, which may close them at any time. */
export interface SpliceRequest {
  from: number;
  to: number;
  bytes: number;
  /** The bytes are the rest of an HTTP chunk. Plain chunks after it are moved too, with their lines; never the last. */
  inChunks?: boolean;
  /** Which of the two connections `cut` resets. */
  cuts: "from" | "to";
}

/** The result. */
export interface Spliced {
  taken: number;
  /** If less than `taken`, the difference is lost. */
  given: number;
  /** All bytes were delivered; with chunks, up to the end of a chunk's content. */
  isWhole: boolean;
  /** Nothing was taken because splicing is not possible here: the caller has to copy the bytes. */
  couldNot: boolean;
}

/** A transfer in progress. */
export interface Splicing {
  /** Ends the transfer soon. */
  stop(): void;
  /** Ends the transfer, and resets one of the connections before it returns, whatever other descriptors of it exist. */
  cut(): void;
}

export interface Splice {
  /** Calls `over` once, later. Undefined: not possible now, and `over` is not called. */
  begin(way: SpliceRequest, over: (spliced: Spliced) => void): Splicing | undefined;
}
