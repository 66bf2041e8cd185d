/** One client request and its response, independent of the protocol. Bytes pass through calls, without streams. */
import type { HeaderLines } from "../../http1/header-lines.ts";
import type { HeldBytes } from "../flow/held-bytes.ts";
import type { RequestTrace } from "../request-trace.ts";

export interface ClientRequest {
  readonly method: string;
  /** The target as sent. */
  readonly target: string;
  readonly headers: HeaderLines;
  /** Ties the response to log lines; decided when first asked for. */
  readonly requestId: string;
  /** While traces are exported. */
  trace: RequestTrace | undefined;
  /** The client's address. */
  readonly peer: string;
  /** Whether it came over TLS. */
  readonly isSecure: boolean;
  /** Length of the body. 0: there is none; undefined: unknown until it ends. */
  readonly bodyBytes: number | undefined;

  /** Called once if the client disconnects, or breaks its body off, before it has the whole response. */
  onDisconnect: (() => void) | undefined;
  readonly isDisconnected: boolean;
  /** Called once when the request is over: responded to, aborted, or its tunnel closed. */
  onOver: (() => void) | undefined;
  /** Aborted when `onDisconnect` is called. */
  readonly signal: AbortSignal;

  /** Charges the unsent part of the response to this budget. Absent if another mechanism bounds it. */
  chargeTo?(held: HeldBytes): void;

  /** Sends the body to the sink from now on. Until then it is held back. */
  sendBodyTo(sink: BodySink): void;
  /**
   * Lets another reader take the rest of the body from the connection, given its descriptor and the number of bytes.
   * False or absent: the body continues to go to the sink.
   */
  spliceBody?(take: (descriptor: number, bytes: number) => boolean): boolean;
  /** Reports how many bytes the other reader took. The body has then ended, or continues to the sink. */
  bodySpliced?(bytes: number): void;
  /** Pauses the body; `releaseBody` resumes it. */
  holdBody(): void;
  releaseBody(): void;

  /** Whether the response may be sent in the service's own chunks. */
  readonly readsChunks?: boolean;
  /**
   * Begins the response. The headers go to the client as they are, with the body's length if it is known. `first` is
   * the part of the body that is already available, sent together with the head.
   */
  respond(head: ResponseLines, body: ResponseBody, first?: Buffer<ArrayBuffer>): void;
  /** Takes ownership of the bytes. False: the client does not keep up, and `onDrained` is called once it does. */
  write(bytes: Buffer<ArrayBuffer>): boolean;
  onDrained: (() => void) | undefined;
  /**
   * The connection's descriptor if the rest of the response may be written to it directly: its length is known and
   * everything written so far was sent. Undefined or absent otherwise.
   */
  readonly responseDescriptor?: number | undefined;
  /** Completes the response. */
  end(): void;
  /** Aborts the response so that the client cannot mistake it for complete. */
  cut(): void;
  /** Turns the connection into a tunnel, with this head as response. Absent if the protocol has no tunnels. */
  tunnel?(head: ResponseLines): ClientTunnel;
}

export interface BodySink {
  /** A piece of the content, owned by the sink from now on. */
  piece(bytes: Buffer<ArrayBuffer>): void;
  /** The whole body has arrived. */
  ended(): void;
}

/**
 * "none": no body, as for HEAD, whatever the headers say. "whole": the first piece is the whole body. "follows": the
 * body is written in pieces and then ended. "chunks": the same, but the pieces contain their own chunk lines, in plain
 * form and up to the last chunk.
 */
export type ResponseBody = "none" | "whole" | "follows" | "chunks";

export interface ResponseLines {
  status: number;
  statusText: string;
  headers: HeaderLines;
}

/** Raw bytes in both directions, without HTTP. */
export interface ClientTunnel {
  onData: (bytes: Buffer<ArrayBuffer>) => void;
  onDrained: () => void;
  onClosed: () => void;
  /** False: the client does not keep up, and `onDrained` is called once it does. */
  write(bytes: Buffer<ArrayBuffer>): boolean;
  pause(): void;
  resume(): void;
  /** Sends waiting bytes, then closes. */
  end(): void;
  cut(): void;
}
