/**
 * The head of an HTTP answer: what the sandbox says, bounded and checked, and what came behind it. Interim answers
 * (100, 103) are read over: the client has been told to continue already, and early hints are only hints.
 */
import { appendLines, bytesLike, HeaderLines } from "./front/header-lines.ts";
import { EDGE_ANSWER_HEAD_MAX_BYTES } from "./limits.ts";

export interface AnswerHead {
  status: number;
  statusText: string;
  headers: HeaderLines;
  /** Bytes of the body that came together with the head. */
  rest: Buffer<ArrayBuffer>;
}

const SWITCHING_PROTOCOLS = 101;
const OK = 200;
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const RULES = { inValue: bytesLike(/^[^\0\r\n]$/), mayEndBare: true };
const NOTHING: Buffer<ArrayBuffer> = Buffer.alloc(0);

/** Gathers the bytes of an answer until its head is whole. */
export class AnswerHeadReader {
  #bytes = NOTHING;
  #interimBytes = 0;

  /** Undefined: more has to come. Throws when it is none. */
  take(more: Buffer<ArrayBuffer>): AnswerHead | undefined {
    this.#bytes = this.#bytes.length === 0 ? more : Buffer.concat([this.#bytes, more]);
    for (;;) {
      const end = endOfHead(this.#bytes);
      if (this.#interimBytes + (end?.body ?? this.#bytes.length) > EDGE_ANSWER_HEAD_MAX_BYTES) {
        throw new Error("the service's answer has too long a head");
      }
      if (end === undefined) return undefined;
      const head = parseHead(this.#bytes, end.head, this.#bytes.subarray(end.body));
      if (head.status >= OK || head.status === SWITCHING_PROTOCOLS) return head;
      this.#interimBytes += end.body;
      this.#bytes = head.rest;
    }
  }
}

/**
 * Where the head ends and the body begins. Lines may end without a carriage return, as those of small servers written
 * by hand do (RFC 9112, 2.2); since the head is written anew for the client, nobody can read it in another way.
 */
function endOfHead(bytes: Buffer<ArrayBuffer>): { head: number; body: number } | undefined {
  const full = bytes.indexOf(END);
  const bare = (full < 0 ? bytes : bytes.subarray(0, full + 1)).indexOf(BARE_END);
  if (bare >= 0) return { head: lineEndBefore(bytes, bare), body: bare + 2 };
  return full < 0 ? undefined : { head: lineEndBefore(bytes, full), body: full + 3 };
}

/** Where the line ends that has its line feed here. */
function lineEndBefore(bytes: Buffer<ArrayBuffer>, lineFeed: number): number {
  return bytes[lineFeed - 1] === CARRIAGE_RETURN ? lineFeed - 1 : lineFeed;
}

const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;

const END = Buffer.from("\n\r\n");
const BARE_END = Buffer.from("\n\n");

/** `end` is behind the last letter of the last line. */
function parseHead(bytes: Buffer<ArrayBuffer>, end: number, rest: Buffer<ArrayBuffer>): AnswerHead {
  const lineFeed = bytes.indexOf(LINE_FEED);
  const statusLine = STATUS_LINE.exec(bytes.toString("latin1", 0, lineEndBefore(bytes, lineFeed)));
  if (statusLine === null) throw new Error("the service's answer is not HTTP");
  const headers = new HeaderLines();
  if (lineFeed < end && !appendLines(headers, bytes, lineFeed + 1, end, RULES)) {
    throw new Error("the service's answer has a malformed header");
  }
  return { status: Number(statusLine[1]), statusText: statusLine[2] ?? "", headers, rest };
}
