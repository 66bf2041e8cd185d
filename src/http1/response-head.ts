/**
 * Response heads. Lines may end with a bare LF, as small services send them: no reader takes one response for two
 * because of that, and a head forwarded to a client of the edge is written anew.
 */
import { BadHead, declaredLength, HeadReader } from "./head-reader.ts";
import type { HeaderLines } from "./header-lines.ts";

export interface ResponseHead {
  status: number;
  statusText: string;
  headers: HeaderLines;
}

type StatusLine = Pick<ResponseHead, "status" | "statusText">;

const STATUS_LINE = /^HTTP\/1\.[01] ([1-9]\d{2})(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
export const SWITCHING_PROTOCOLS = 101;
const FINAL_MIN = 200;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

export class ResponseHeadReader extends HeadReader<StatusLine, ResponseHead> {
  protected readonly kind = "response";
  protected readonly allowsBareLineFeeds = true;

  protected first(line: string): StatusLine {
    const [, status, statusText = ""] = STATUS_LINE.exec(line) ?? [];
    if (status === undefined) throw new BadHead(400, "The response does not begin with a status line of HTTP/1.1");
    return { status: Number(status), statusText };
  }

  protected head({ status, statusText }: StatusLine, headers: HeaderLines): ResponseHead {
    return { status, statusText, headers };
  }
}

/** Whether the response has no body, whatever its headers say (RFC 9112, 6.3). */
export function isBodiless(method: string, { status }: Pick<ResponseHead, "status">): boolean {
  return method === "HEAD" || status < FINAL_MIN || status === NO_CONTENT || status === NOT_MODIFIED;
}

/** "close": the end of the connection is the end of the body. Throws `BadHead` for two lengths. */
export function responseLength({ headers }: Pick<ResponseHead, "headers">): number | "chunked" | "close" {
  const length = declaredLength(headers, "response");
  return length === "untold" ? "close" : length;
}
