/**
 * Where a body ends in the bytes of a connection: counted, in chunks, or with the connection. One reading for both
 * sides, requests and answers, and a strict one.
 */
import { EDGE_CHUNK_LINE_MAX_BYTES, EDGE_CHUNK_TRAILER_MAX_LINES } from "../limits.ts";

/** How a body's end is told. */
export interface Framing {
  /**
   * Takes what arrived and gives the content that is in it; may overwrite it. Throws when it is not framed as it must
   * be.
   */
  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer>;
  readonly ended: boolean;
  /** How many of the bytes that were taken last, at their end, are behind the body. */
  readonly surplus: number;
  /** Nothing but the end of the connection tells. */
  readonly endsWithConnection?: true;
  /** How many bytes of content are still to come, if that is known. */
  readonly left?: number;
  /** So many of them went another way. */
  skip?(bytes: number): void;
  /** The same of a body in chunks: of the one that has begun. */
  readonly chunkLeft?: number;
  /** It went another way, and perhaps others behind it; what comes next is the line end of the last of them. */
  skipChunks?(): void;
}

const LINE_FEED = 0x0a;
// An extension is passed over, and is never passed on.
const CHUNK_SIZE = /^([0-9a-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?[ \t]*$/i;

export class CountedBody implements Framing {
  #left: number;
  surplus = 0;

  constructor(length: number) {
    this.#left = length;
  }

  get ended(): boolean {
    return this.#left === 0;
  }

  get left(): number {
    return this.#left;
  }

  skip(bytes: number): void {
    this.#left -= bytes;
    this.surplus = 0;
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    this.surplus = Math.max(bytes.length - this.#left, 0);
    const content = this.surplus === 0 ? bytes : bytes.subarray(0, this.#left);
    this.#left -= content.length;
    return content;
  }
}

export class BodyUntilClose implements Framing {
  readonly ended = false;
  readonly surplus = 0;
  readonly endsWithConnection = true;

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    return bytes;
  }
}

/** The content is moved together within the bytes that arrived, so that a flood of tiny chunks costs nothing more. */
export class ChunkedBody implements Framing {
  #awaited: "size" | "content" | "line end" | "trailer" | "nothing" = "size";
  #line = "";
  #trailers = 0;
  #left = 0;
  surplus = 0;

  get ended(): boolean {
    return this.#awaited === "nothing";
  }

  get chunkLeft(): number {
    return this.#left;
  }

  skipChunks(): void {
    this.#left = 0;
    this.#awaited = "line end";
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    let gathered = 0;
    let at = 0;
    while (at < bytes.length && !this.ended) {
      if (this.#awaited !== "content") {
        at = this.#takeLine(bytes, at);
        continue;
      }
      const taken = Math.min(this.#left, bytes.length - at);
      if (gathered !== at) bytes.copyWithin(gathered, at, at + taken);
      gathered += taken;
      at += taken;
      this.#left -= taken;
      if (this.#left === 0) this.#awaited = "line end";
    }
    this.surplus = bytes.length - at;
    return bytes.subarray(0, gathered);
  }

  /** Takes up to and with the next line feed; returns where the rest begins. */
  #takeLine(bytes: Buffer<ArrayBuffer>, at: number): number {
    const end = bytes.indexOf(LINE_FEED, at);
    const lineEnd = Math.min(end < 0 ? bytes.length : end, at + EDGE_CHUNK_LINE_MAX_BYTES + 1);
    this.#line += bytes.toString("latin1", at, lineEnd);
    if (this.#line.length > EDGE_CHUNK_LINE_MAX_BYTES) throw new Error("the body has too long a line");
    if (end < 0) return bytes.length;
    if (!this.#line.endsWith("\r")) throw new Error("the body has a malformed line");
    this.#lineTaken(this.#line.slice(0, -1));
    this.#line = "";
    return end + 1;
  }

  #lineTaken(line: string): void {
    if (this.#awaited === "line end") {
      if (line !== "") throw new Error("the body has a chunk of another length than announced");
      this.#awaited = "size";
    } else if (this.#awaited === "trailer") {
      if (line === "") this.#awaited = "nothing";
      else if (++this.#trailers > EDGE_CHUNK_TRAILER_MAX_LINES || line.includes("\r")) {
        throw new Error("the body has no clear end");
      }
    } else {
      const digits = CHUNK_SIZE.exec(line)?.[1];
      if (digits === undefined) throw new Error("the body has a chunk without a length");
      this.#left = Number.parseInt(digits, 16);
      this.#awaited = this.#left === 0 ? "trailer" : "content";
    }
  }
}
