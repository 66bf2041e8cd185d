/** One request of a client and its answer, over whichever protocol it came. Bytes pass by calls, without streams. */
import type { HeaderLines } from "../../http1/header-lines.ts";
import type { HeldBytes } from "./held-bytes.ts";

export interface ClientRequest {
  readonly method: string;
  /** As it was sent. */
  readonly target: string;
  readonly headers: HeaderLines;
  /** The address of who sent it. */
  readonly peer: string;
  /** It came by TLS. */
  readonly isSecure: boolean;
  /** Of its body. 0: there is none; undefined: it ends when it ends. */
  readonly bodyBytes: number | undefined;

  /** Called once if the client leaves, or breaks its body off, before it has its whole answer. */
  onGone: (() => void) | undefined;
  readonly isGone: boolean;
  /** Called once when it is over, however that came: answered, left, or the tunnel that it became is closed. */
  onOver: (() => void) | undefined;
  /** The same as a signal, for who needs one. */
  readonly signal: AbortSignal;

  /** What it has not taken of its answer counts as held by these. Absent: it is bounded in another way. */
  chargeTo?(held: HeldBytes): void;

  /** From now on the body comes to the sink. What comes before is held back. */
  sendBodyTo(sink: BodySink): void;
  /**
   * Lets somebody else take the rest of the body from the connection, who is told its descriptor and how many bytes
   * they are. False, or absent: it comes to the sink as before.
   */
  divertBody?(take: (descriptor: number, bytes: number) => boolean): boolean;
  /** So many of them were taken. The body has ended with that, or comes to the sink again. */
  bodyDiverted?(bytes: number): void;
  /** Holds the body back, and lets it go on. */
  holdBody(): void;
  releaseBody(): void;

  /**
   * Begins the answer. The headers are those that the client gets; they tell the length of the body, if it is known.
   * `first` is what is here of the body already, so that it goes with the head.
   */
  answer(head: AnswerLines, body: AnswerBody, first?: Buffer<ArrayBuffer>): void;
  /**
   * False: the client does not keep up, and `onDrained` is called when it has. The bytes are the connection's from now
   * on.
   */
  write(bytes: Buffer<ArrayBuffer>): boolean;
  onDrained: (() => void) | undefined;
  /**
   * The connection's descriptor, if what follows of the answer may be sent there past this: it has a known length, and
   * all that was written is on its way. Undefined, or absent: it may not.
   */
  readonly answerDescriptor?: number | undefined;
  /**
   * Begins a chunk of so many bytes that may be sent there past this, and behind it any number of others; what is
   * written to this instead is the chunk's, too. Answers with the connection's descriptor. Undefined, or absent: it
   * may not, for the answer is not in chunks, or not all that was written is on its way.
   */
  divertChunk?(bytes: number): number | undefined;
  /** It was sent whole, and so were others behind it, if any. */
  chunksDiverted?(): void;
  /** The answer is whole. */
  end(): void;
  /** The answer cannot become whole, and the client must not take what it has for that. */
  cut(): void;
  /** Makes the connection a tunnel, with this as its answer. Absent: the protocol has no such thing. */
  tunnel?(head: AnswerLines): ClientTunnel;
}

export interface BodySink {
  /** A piece of the content. It is the sink's from now on. */
  piece(bytes: Buffer<ArrayBuffer>): void;
  /** All of it has come. */
  ended(): void;
}

/**
 * There can be none, as for HEAD, whatever the headers say; or it is the first piece and no more; or it is written, and
 * then ended. Only the last is followed by anything.
 */
export type AnswerBody = "none" | "whole" | "follows";

export interface AnswerLines {
  status: number;
  statusText: string;
  headers: HeaderLines;
}

/** Bytes in both directions, no longer anybody's HTTP. */
export interface ClientTunnel {
  onData: (bytes: Buffer<ArrayBuffer>) => void;
  onDrained: () => void;
  onClosed: () => void;
  /** False: as with an answer. */
  write(bytes: Buffer<ArrayBuffer>): boolean;
  pause(): void;
  resume(): void;
  /** Sends what waits, then closes. */
  end(): void;
  cut(): void;
}
