/** Request heads. Lines must end with CR LF, there is one Host, and the body's length is given once. */
import { BadHead, declaredLength, HeadReader } from "./head-reader.ts";
import type { HeaderLines } from "./header-lines.ts";

export interface RequestHead {
  method: string;
  /** The target as sent. */
  target: string;
  minorVersion: 0 | 1;
  headers: HeaderLines;
  /** Length of the body. 0: there is none; undefined: it is chunked. */
  bodyBytes: number | undefined;
  /** Whether the connection may be used for another request. */
  isKept: boolean;
  /** Whether the client waits for 100 Continue before it sends the body. */
  awaitsContinue: boolean;
}

type RequestLine = Pick<RequestHead, "method" | "target" | "minorVersion">;

// Single spaces separate the three parts. Callers check the target where they use it.
const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~\x80-\xff]+) HTTP\/1\.([01])$/;
const OTHER_VERSION = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} [!-~\x80-\xff]+ HTTP\/\d(?:\.\d)?$/;
const CLOSES = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/;

export class RequestHeadReader extends HeadReader<RequestLine, RequestHead> {
  protected readonly kind = "request";
  protected readonly allowsBareLineFeeds = false;

  protected first(line: string): RequestLine {
    const [, method, target, minor] = REQUEST_LINE.exec(line) ?? [];
    if (method !== undefined && target !== undefined) return { method, target, minorVersion: minor === "1" ? 1 : 0 };
    if (OTHER_VERSION.test(line)) throw new BadHead(505, "Only HTTP/1.1 and HTTP/1.0 are supported");
    throw new BadHead(400, "The request does not begin with a request line of HTTP/1.1");
  }

  protected head({ method, target, minorVersion }: RequestLine, headers: HeaderLines): RequestHead {
    const hosts = headers.count("host");
    if (hosts > 1 || (hosts === 0 && minorVersion === 1)) throw new BadHead(400, "A request must have one Host header");
    const length = declaredLength(headers, "request");
    if (length === "chunked" && minorVersion === 0) throw new BadHead(400, "HTTP/1.0 has no chunked bodies");
    const bodyBytes = length === "chunked" ? undefined : length === "untold" ? 0 : length;
    const connection = headers.get("connection")?.toLowerCase();
    return {
      method,
      target,
      minorVersion,
      headers,
      bodyBytes,
      // An HTTP/1.0 connection is closed after its response, whatever the client asks for.
      isKept: minorVersion === 1 && !(connection !== undefined && CLOSES.test(connection)),
      awaitsContinue: minorVersion === 1 && bodyBytes !== 0 && headers.get("expect")?.toLowerCase() === "100-continue",
    };
  }
}
