/**
 * The body of an HTTP answer on a connection of our own. The sandbox is held back when the client does not take it; a
 * body that is not framed as HTTP says, or ends before its end, breaks the client's, too.
 */
import {
  EDGE_ANSWER_PIECE_OVERHEAD_BYTES,
  EDGE_ANSWER_WAITING_MAX_BYTES,
  EDGE_CHUNK_LINE_MAX_BYTES,
  EDGE_CHUNK_TRAILER_MAX_LINES,
} from "./limits.ts";
import { releaseBufferOf } from "./release-piece.ts";
import type { SandboxSocket } from "./sandbox-socket.ts";

const LINE_FEED = 0x0a;
const NOTHING = Buffer.alloc(0);

/** How a body's end is told. */
interface Framing {
  /**
   * Takes what arrived and gives the content that is in it; may overwrite it. Throws when it is not framed as it must
   * be.
   */
  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer>;
  readonly ended: boolean;
  /** Nothing but the end of the connection tells. */
  readonly endsWithConnection?: true;
}

/** Throws when the headers leave any doubt about where the body ends. */
export function framingOf(headers: Headers): Framing {
  const coding = headers.get("transfer-encoding");
  const length = headers.get("content-length");
  if (coding !== null) {
    if (length !== null || coding.toLowerCase() !== "chunked") throw new Error("the service's answer is framed twice");
    return new ChunkedBody();
  }
  if (length === null) return new BodyUntilClose();
  if (!/^\d{1,15}$/.test(length)) throw new Error("the service's answer has no clear length");
  return new CountedBody(Number(length));
}

class CountedBody implements Framing {
  #left: number;

  constructor(length: number) {
    this.#left = length;
  }

  get ended(): boolean {
    return this.#left === 0;
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    const content = bytes.subarray(0, this.#left);
    this.#left -= content.length;
    return content;
  }
}

class BodyUntilClose implements Framing {
  readonly ended = false;
  readonly endsWithConnection = true;

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    return bytes;
  }
}

/** The content is moved together within the bytes that arrived, so that a flood of tiny chunks costs nothing more. */
class ChunkedBody implements Framing {
  #awaited: "size" | "content" | "line end" | "trailer" | "nothing" = "size";
  #line = "";
  #trailers = 0;
  #left = 0;

  get ended(): boolean {
    return this.#awaited === "nothing";
  }

  take(bytes: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    let gathered = 0;
    for (let at = 0; at < bytes.length && !this.ended; ) {
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
    return bytes.subarray(0, gathered);
  }

  /** Takes up to and with the next line feed; returns where the rest begins. */
  #takeLine(bytes: Buffer<ArrayBuffer>, at: number): number {
    const end = bytes.indexOf(LINE_FEED, at);
    const lineEnd = Math.min(end < 0 ? bytes.length : end, at + EDGE_CHUNK_LINE_MAX_BYTES + 1);
    this.#line += bytes.toString("latin1", at, lineEnd);
    if (this.#line.length > EDGE_CHUNK_LINE_MAX_BYTES) throw new Error("the service's answer has too long a line");
    if (end < 0) return bytes.length;
    if (!this.#line.endsWith("\r")) throw new Error("the service's answer has a malformed line");
    this.#lineTaken(this.#line.slice(0, -1));
    this.#line = "";
    return end + 1;
  }

  #lineTaken(line: string): void {
    if (this.#awaited === "line end") {
      if (line !== "") throw new Error("the service's answer has a chunk of another length than announced");
      this.#awaited = "size";
    } else if (this.#awaited === "trailer") {
      if (line === "") this.#awaited = "nothing";
      else if (++this.#trailers > EDGE_CHUNK_TRAILER_MAX_LINES) throw new Error("the service's answer has no end");
    } else {
      const digits = /^([0-9a-f]{1,8})[ \t]*(?:;|$)/i.exec(line)?.[1];
      if (digits === undefined) throw new Error("the service's answer has a chunk without a length");
      this.#left = Number.parseInt(digits, 16);
      this.#awaited = this.#left === 0 ? "trailer" : "content";
    }
  }
}

/**
 * The content of an answer as it arrives. Owns the connection from now on: it ends with the body, and the body with it.
 * `rest` is what came behind the head.
 */
export class ArrivingBody {
  readonly #socket: SandboxSocket;
  readonly #framing: Framing;
  readonly #waiting: Buffer<ArrayBuffer>[] = [];
  #waitingCost = 0;
  #passedOn: Buffer<ArrayBuffer> | undefined;
  #paused = false;
  #closed = false;
  #complete = false;
  #wake: (() => void) | undefined;

  constructor(socket: SandboxSocket, rest: Buffer<ArrayBuffer>, framing: Framing) {
    this.#socket = socket;
    this.#framing = framing;
    if (framing.ended) this.#finish();
    this.#take(rest);
    if (!this.#complete) {
      socket.listen({
        data: (bytes) => this.#take(bytes),
        drained: () => undefined,
        closed: () => this.#close(),
      });
    }
  }

  /** All of it, if all is here in one piece; or else undefined. */
  get whole(): Buffer<ArrayBuffer> | undefined {
    if (!this.#complete || this.#waiting.length > 1) return undefined;
    return this.#waiting[0] ?? NOTHING;
  }

  /** Resolves when anything of it is here, or nothing will be. */
  async begun(): Promise<void> {
    if (this.#waiting.length === 0 && !this.#complete && !this.#closed) await this.#more();
  }

  /** `over` is told when it has ended, in whichever way. */
  stream(over: () => void): ReadableStream<Uint8Array<ArrayBuffer>> {
    this.#socket.keepAlive();
    return new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        pull: async (controller) => {
          const next = await this.#next();
          if (next === "broken" || next === "end") over();
          // Without a reason: Bun.serve prints one to stderr, stack and all, and any sandbox can cause it at will.
          if (next === "broken") controller.error();
          else if (next === "end") controller.close();
          else controller.enqueue(next);
        },
        cancel: () => {
          over();
          this.#socket.terminate();
        },
      },
      { highWaterMark: 0 },
    );
  }

  #take(bytes: Buffer<ArrayBuffer>): void {
    // What a sandbox sends behind the end of its answer is nobody's.
    if (this.#complete || this.#closed) return;
    try {
      this.#keep(this.#framing.take(bytes));
    } catch {
      this.#socket.terminate();
      this.#closed = true;
    }
    if (this.#framing.ended) this.#finish();
    else if (this.#waitingCost >= EDGE_ANSWER_WAITING_MAX_BYTES) this.#pause();
    this.#wake?.();
  }

  #finish(): void {
    this.#complete = true;
    this.#socket.finish();
  }

  #close(): void {
    this.#closed = true;
    // A connection that broke is no end: the client must not take a part for the whole.
    if (this.#framing.endsWithConnection && this.#socket.farEnded) this.#complete = true;
    this.#wake?.();
  }

  /** Whoever asks for the next piece has no more use for the last. */
  async #next(): Promise<Buffer<ArrayBuffer> | "end" | "broken"> {
    // What a socket hands out is a buffer of its own, of which content and framing lie in the same piece.
    releaseBufferOf(this.#passedOn);
    this.#passedOn = undefined;
    await this.begun();
    const next = this.#waiting.shift();
    this.#passedOn = next;
    if (next === undefined) return this.#complete ? "end" : "broken";
    this.#waitingCost -= cost(next);
    if (this.#waitingCost <= EDGE_ANSWER_WAITING_MAX_BYTES / 2) this.#resume();
    return next;
  }

  #keep(content: Buffer<ArrayBuffer>): void {
    if (content.length === 0) return;
    this.#waiting.push(content);
    this.#waitingCost += cost(content);
  }

  #more(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }

  #pause(): void {
    if (!this.#paused) this.#socket.pause();
    this.#paused = true;
  }

  #resume(): void {
    if (this.#paused) this.#socket.resume();
    this.#paused = false;
  }
}

function cost(piece: Buffer<ArrayBuffer>): number {
  return piece.length + EDGE_ANSWER_PIECE_OVERHEAD_BYTES;
}
