/**
 * The head of a request of HTTP/1.1, read strictly: what can be read in two ways is refused, so that nobody behind us
 * finds another request in the same bytes. Lines end with CR LF and with nothing else; there is one Host; the length of
 * a body is told once, in one way.
 */
import { EDGE_REQUEST_HEAD_MAX_BYTES, EDGE_REQUEST_HEAD_MAX_LINES } from "../limits.ts";
import { appendLines, bytesLike, HeaderLines } from "./header-lines.ts";

export interface RequestHead {
  method: string;
  /** As it was sent. */
  target: string;
  minorVersion: 0 | 1;
  headers: HeaderLines;
  /** Of the body. 0: there is none; undefined: it comes in chunks. */
  bodyBytes: number | undefined;
  /** The connection may be used again. */
  isKept: boolean;
  /** The client waits to be told that it may send the body. */
  awaitsContinue: boolean;
}

/** What is answered to bytes that are no request. */
export class BadHead extends Error {
  constructor(
    readonly status: 400 | 431 | 501 | 505,
    text: string,
  ) {
    super(text);
  }
}

/** Where a head ends in the bytes, or -1. */
const END = Buffer.from("\r\n\r\n");
const LINE_END = Buffer.from("\r\n");
const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;

// One space between the three, and none in them. The target is looked at where it is used.
const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~\x80-\xff]+) HTTP\/1\.([01])$/;
const OTHER_VERSION = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} [!-~\x80-\xff]+ HTTP\/\d(?:\.\d)?$/;
/** What can be seen, spaces, and bytes of other alphabets: neither a bare CR nor a bare LF is a value's. */
const RULES = { inValue: bytesLike(/^[\t\x20-\x7e\x80-\xff]$/), mayEndBare: false };
const LENGTH = /^\d{1,15}$/;

/**
 * The head at the start of the bytes, and where what is behind it begins; undefined: it has not come whole. Throws
 * BadHead. Empty lines before it are passed over, as clients of old send one behind a body.
 */
export function readRequestHead(bytes: Buffer): { head: RequestHead; end: number } | undefined {
  let start = 0;
  while (bytes[start] === CARRIAGE_RETURN && bytes[start + 1] === LINE_FEED) start += 2;
  const end = bytes.indexOf(END, start);
  const length = end < 0 ? bytes.length : end + END.length;
  if (length > EDGE_REQUEST_HEAD_MAX_BYTES)
    throw new BadHead(431, `The request's head is too long; it may have ${EDGE_REQUEST_HEAD_MAX_BYTES} bytes`);
  if (end < 0) {
    refuseEarly(bytes, start);
    return undefined;
  }
  return { head: parsed(bytes, start, end), end: length };
}

/** What cannot become a head is not waited for: who speaks another protocol is told so. */
function refuseEarly(bytes: Buffer, start: number): void {
  const line = bytes.indexOf(LINE_FEED, start);
  if (line < 0) return;
  requestLine(bytes.toString("latin1", start, line).replace(/\r$/, ""));
  for (let at = line; at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) {
    if (bytes[at - 1] !== CARRIAGE_RETURN)
      throw new BadHead(400, "A line of the request's head does not end with CR LF");
  }
}

/** What is between these two, the second of which is behind the last letter of the last line. */
function parsed(bytes: Buffer, start: number, end: number): RequestHead {
  const lineEnd = bytes.indexOf(LINE_END, start);
  const { method, target, minorVersion } = requestLine(bytes.toString("latin1", start, lineEnd));
  const headers = new HeaderLines();
  if (lineEnd < end && !appendLines(headers, bytes, lineEnd + LINE_END.length, end, RULES))
    throw new BadHead(400, "A header of the request is malformed");
  if (headers.size > EDGE_REQUEST_HEAD_MAX_LINES) throw new BadHead(431, "The request has too many headers");
  const hosts = headers.count("host");
  if (hosts > 1 || (hosts === 0 && minorVersion === 1)) throw new BadHead(400, "A request must have one Host header");
  const bodyBytes = bodyBytesOf(headers, minorVersion);
  const connection = headers.get("connection")?.toLowerCase();
  return {
    method,
    target,
    minorVersion,
    headers,
    bodyBytes,
    // The connections of HTTP/1.0 are for one request each, whatever else it asks for.
    isKept: minorVersion === 1 && !(connection !== undefined && /(?:^|,)[ \t]*close[ \t]*(?:,|$)/.test(connection)),
    awaitsContinue: minorVersion === 1 && bodyBytes !== 0 && expectsContinue(headers),
  };
}

function requestLine(line: string): Pick<RequestHead, "method" | "target" | "minorVersion"> {
  const found = REQUEST_LINE.exec(line);
  if (found !== null) return { method: found[1] ?? "", target: found[2] ?? "", minorVersion: found[3] === "1" ? 1 : 0 };
  if (OTHER_VERSION.test(line)) throw new BadHead(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here");
  throw new BadHead(400, "The request does not begin with a line of HTTP/1.1");
}

/** Content-Length or Transfer-Encoding, once: of two that disagree, those behind us might take the other. */
function bodyBytesOf(headers: HeaderLines, minorVersion: 0 | 1): number | undefined {
  const codings = headers.count("transfer-encoding");
  const lengths = headers.count("content-length");
  if (codings + lengths === 0) return 0;
  if (codings + lengths > 1) throw new BadHead(400, "The length of the request's body is told more than once");
  if (codings === 1) {
    if (minorVersion === 0) throw new BadHead(400, "HTTP/1.0 has no chunked bodies");
    if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") return undefined;
    throw new BadHead(501, "Transfer-Encoding can be chunked and nothing else");
  }
  const length = headers.get("content-length") ?? "";
  if (!LENGTH.test(length)) throw new BadHead(400, "Content-Length is not a number");
  return Number(length);
}

function expectsContinue(headers: HeaderLines): boolean {
  return headers.get("expect")?.toLowerCase() === "100-continue";
}
