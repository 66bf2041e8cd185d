/**
 * The HTTP/1.1 reader of this project, used by the edge (clients and services, the splice thread included) and the
 * egress relay. The host's calls to guests use `fetch`. Request smuggling needs two readers that disagree, so messages
 * that are passed on have only one, which refuses any message that another implementation could read differently. This
 * folder never opens a connection and never decides where a message goes.
 *
 * A head is parsed line by line, each line once, when its line feed has arrived. The result therefore does not depend
 * on how the bytes are split into pieces. Folded lines, blanks before a colon, control characters and bare CRs are
 * rejected.
 */
import { CARRIAGE_RETURN, COLON, IN_TOKEN, IN_VALUE, LINE_FEED, SPACE, TAB } from "./bytes.ts";
import { HeaderLines } from "./header-lines.ts";

type Bytes = Buffer<ArrayBuffer>;

/** A rejected head, with the status for the response. */
export class BadHead extends Error {
  constructor(
    readonly status: 400 | 431 | 501 | 505,
    text: string,
  ) {
    super(text);
  }
}

interface HeadBounds {
  maxBytes: number;
  /** Maximum header lines; unlimited by default. */
  maxLines?: number;
  /** Skips empty lines before the head: old clients send one after a body. */
  skipsEmptyLines?: boolean;
}

interface FoundHead<Head> {
  head: Head;
  /** The head's own bytes, including the empty line at its end. */
  raw: Bytes;
  /** The bytes that arrived after it. */
  rest: Bytes;
}

const NOTHING: Bytes = Buffer.alloc(0);
const END = Buffer.from("\r\n\r\n");
const BARE_END = Buffer.from("\n\n");
const MIXED_END = Buffer.from("\n\r\n");
const GATHERED_MIN_BYTES = 1024;

/** Subclasses parse the first line of their kind of message and check its complete head. */
export abstract class HeadReader<First, Head> {
  protected abstract readonly kind: "request" | "response";
  /** Whether lines may end with a bare LF (RFC 9112, 2.2), as small hand-written services send them. */
  protected abstract readonly allowsBareLineFeeds: boolean;
  /** Bytes that have arrived; longer than `#length` while it grows. */
  #store = NOTHING;
  #length = 0;
  /** Start of the head, after skipped lines. */
  #start = 0;
  /** Start of the first line not parsed yet. */
  #at = 0;
  #first: First | undefined;
  #headers = new HeaderLines();

  constructor(private readonly bounds: HeadBounds) {}

  /** Throws `BadHead`, as does `head`. */
  protected abstract first(line: string): First;
  protected abstract head(first: First, headers: HeaderLines): Head;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** All bytes of an incomplete or rejected head. */
  get bytes(): Bytes {
    return this.#store.subarray(0, this.#length);
  }

  /**
   * Returns undefined while the head is incomplete. Afterwards the reader is ready for the next head. Throws `BadHead`.
   */
  take(piece: Bytes): FoundHead<Head> | undefined {
    const searched = this.#length;
    const bytes = this.#gather(piece);
    if (this.bounds.skipsEmptyLines === true && this.#first === undefined) this.#skipEmptyLines(bytes);
    if (this.#first === undefined && !this.#mayBegin(bytes)) throw this.#bad(bytes, "does not begin with HTTP/1.1");
    const end = this.#takeLines(bytes, this.#linesEnd(bytes, piece, searched));
    if (end === undefined) {
      if (bytes.length > this.bounds.maxBytes) throw this.#tooLong();
      return undefined;
    }
    const head = this.head(this.#first as First, this.#headers);
    const found = { head, raw: bytes.subarray(this.#start, end), rest: bytes.subarray(end) };
    this.#reset();
    return found;
  }

  /** One piece is used in place. Several are copied into a buffer that doubles, so tiny pieces cost little. */
  #gather(piece: Bytes): Bytes {
    const held = this.#length;
    const length = held + piece.length;
    this.#length = length;
    if (held === 0) {
      this.#store = piece;
      return piece;
    }
    if (this.#store.length < length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * length, GATHERED_MIN_BYTES));
      larger.set(this.#store.subarray(0, held));
      this.#store = larger;
    }
    this.#store.set(piece, held);
    return this.bytes;
  }

  #reset(): void {
    this.#store = NOTHING;
    this.#length = 0;
    this.#start = 0;
    this.#at = 0;
    this.#first = undefined;
    this.#headers = new HeaderLines();
  }

  #skipEmptyLines(bytes: Bytes): void {
    while (bytes[this.#at] === CARRIAGE_RETURN && bytes[this.#at + 1] === LINE_FEED) this.#at += 2;
    this.#start = this.#at;
  }

  /** Refuses another protocol, such as TLS, at its first byte. */
  #mayBegin(bytes: Bytes): boolean {
    const byte = bytes[this.#at];
    const isEmptyLine = byte === CARRIAGE_RETURN && this.bounds.skipsEmptyLines === true;
    return byte === undefined || IN_TOKEN[byte] === 1 || (isEmptyLine && bytes.length === this.#at + 1);
  }

  /** Position after the last complete line of the head that has arrived. Searches no byte twice. */
  #linesEnd(bytes: Bytes, piece: Bytes, searched: number): number {
    const from = Math.max(this.#start, searched - END.length + 1);
    let end = -1;
    if (this.allowsBareLineFeeds) {
      const mixed = bytes.indexOf(MIXED_END, from);
      const bare = (mixed < 0 ? bytes : bytes.subarray(0, mixed + 1)).indexOf(BARE_END, from);
      if (bare >= 0) end = bare + BARE_END.length;
      else if (mixed >= 0) end = mixed + MIXED_END.length;
    } else {
      const found = bytes.indexOf(END, from);
      if (found >= 0) end = found + END.length;
    }
    if (end >= 0) return end;
    const last = piece.lastIndexOf(LINE_FEED);
    return last < 0 ? this.#at : Math.max(this.#at, searched + last + 1);
  }

  /** Parses the lines up to `to`, which follows a line feed. Returns the end of the head, if it is there. */
  #takeLines(bytes: Bytes, to: number): number | undefined {
    if (this.#at === to) return undefined;
    if (this.#first === undefined) this.#takeFirst(bytes);
    const { maxBytes, maxLines = Number.POSITIVE_INFINITY } = this.bounds;
    const headers = this.#headers;
    const from = this.#at;
    const text = bytes.toString("latin1", from, to);
    // Byte by byte: an expression for each line takes three times as long. The line feed at the end stops each loop.
    for (let at = from; at < to; this.#at = at) {
      let colon = at;
      while (IN_TOKEN[bytes[colon] as number] === 1) colon += 1;
      if (colon === at) {
        const headEnd = this.#lineEnd(bytes, at);
        if (headEnd > maxBytes) throw this.#tooLong();
        if (headEnd > 0) return headEnd;
      }
      let stop = colon + 1;
      while (IN_VALUE[bytes[stop] as number] === 1) stop += 1;
      const end = this.#lineEnd(bytes, stop);
      if (colon === at || bytes[colon] !== COLON || end < 0) throw this.#bad(bytes, "has a malformed header");
      if (end > maxBytes) throw this.#tooLong();
      let start = colon + 1;
      while (start < stop && isBlank(bytes[start])) start += 1;
      while (stop > start && isBlank(bytes[stop - 1])) stop -= 1;
      if (headers.size >= maxLines) throw new BadHead(431, `The ${this.kind} has more than ${maxLines} headers`);
      headers.append(text.slice(at - from, colon - from).toLowerCase(), text.slice(start - from, stop - from));
      at = end;
    }
    return undefined;
  }

  #takeFirst(bytes: Bytes): void {
    const lineFeed = bytes.indexOf(LINE_FEED, this.#at);
    if (lineFeed >= this.bounds.maxBytes) throw this.#tooLong();
    const isFull = bytes[lineFeed - 1] === CARRIAGE_RETURN;
    if (!isFull && !this.allowsBareLineFeeds) throw this.#bad(bytes, "has a line that does not end with CR LF");
    this.#first = this.first(bytes.toString("latin1", this.#at, isFull ? lineFeed - 1 : lineFeed));
    this.#at = lineFeed + 1;
  }

  /** Position after the line end at `at`; -1 if there is none. */
  #lineEnd(bytes: Bytes, at: number): number {
    if (bytes[at] === CARRIAGE_RETURN && bytes[at + 1] === LINE_FEED) return at + 2;
    return this.allowsBareLineFeeds && bytes[at] === LINE_FEED ? at + 1 : -1;
  }

  /**
   * Reports a malformed line beyond the bound as too long, so that the result does not depend on how the bytes arrive.
   */
  #bad(bytes: Bytes, problem: string): BadHead {
    const lineFeed = bytes.indexOf(LINE_FEED, this.#at);
    if (lineFeed >= this.bounds.maxBytes) return this.#tooLong();
    return new BadHead(400, `The ${this.kind} ${problem}`);
  }

  #tooLong(): BadHead {
    return new BadHead(431, `The head of the ${this.kind} is longer than ${this.bounds.maxBytes} bytes`);
  }
}

/**
 * The body length given by the headers, "chunked", or "untold". Two statements are rejected even if they agree: the
 * next reader might use the other one (RFC 9112, 6.3).
 */
export function declaredLength(headers: HeaderLines, name: "request" | "response"): number | "chunked" | "untold" {
  const codings = headers.count("transfer-encoding");
  const lengths = headers.count("content-length");
  if (codings + lengths === 0) return "untold";
  if (codings + lengths > 1) throw new BadHead(400, `The length of the ${name}'s body is given more than once`);
  if (codings === 1) {
    if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") return "chunked";
    throw new BadHead(501, `The Transfer-Encoding of the ${name} is not "chunked", which is the only one supported`);
  }
  const length = headers.get("content-length") ?? "";
  if (!LENGTH.test(length)) throw new BadHead(400, `The Content-Length of the ${name} is not a number`);
  return Number(length);
}

/** At most 15 digits, exact as a number. */
const LENGTH = /^\d{1,15}$/;

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB;
}
