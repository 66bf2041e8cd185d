/**
 * Parses the head of an HTTP/2 request as strictly as one of HTTP/1.1: its headers become HTTP/1.1 lines for the
 * service and must not be read differently there.
 */
import { HTTP2_FORBIDDEN_HEADERS } from "../../contract/connection-headers.ts";
import { HeaderLines, isToken } from "../../http1/header-lines.ts";
import type { RequestHead } from "../../http1/request-head.ts";

const METHOD_MAX_CHARS = 32;
const TARGET = /^[!-~\x80-\xff]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const LENGTH = /^\d{1,15}$/;

export type Http2Head = Pick<RequestHead, "method" | "target" | "headers" | "bodyBytes">;

/** Undefined if the head is malformed or ambiguous. `raw` holds names and values alternately. */
export function headOf(raw: readonly string[], hasEnded: boolean): Http2Head | undefined {
  const pseudo = new Map<string, string>();
  const headers = new HeaderLines();
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = "", value = ""] = [raw[at], raw[at + 1]];
    if (!VALUE.test(value)) return undefined;
    if (name.startsWith(":")) {
      if (pseudo.has(name) || headers.size > 0) return undefined;
      pseudo.set(name, value);
      continue;
    }
    if (!isToken(name) || name !== name.toLowerCase() || HTTP2_FORBIDDEN_HEADERS.has(name)) return undefined;
    if (name === "te" && value.toLowerCase() !== "trailers") return undefined;
    headers.append(name, value);
  }
  const method = pseudo.get(":method") ?? "";
  const target = pseudo.get(":path") ?? "";
  if (!isToken(method) || method.length > METHOD_MAX_CHARS || method === "CONNECT" || !TARGET.test(target)) {
    return undefined;
  }
  if (!withHost(headers, pseudo.get(":authority"))) return undefined;
  const bodyBytes = bodyBytesOf(headers, hasEnded);
  return bodyBytes === "unclear" ? undefined : { method, target, headers, bodyBytes };
}

/** Requires one Host, as HTTP/1.1 does. Two different ones would be ambiguous. */
function withHost(headers: HeaderLines, authority: string | undefined): boolean {
  const hosts = headers.count("host");
  if (hosts > 1 || (authority === undefined && hosts === 0)) return false;
  if (hosts === 1) return authority === undefined || headers.get("host") === authority;
  headers.append("host", authority ?? "");
  return true;
}

function bodyBytesOf(headers: HeaderLines, hasEnded: boolean): number | undefined | "unclear" {
  const length = headers.get("content-length");
  if (length === null) return hasEnded ? 0 : undefined;
  if (!LENGTH.test(length)) return "unclear";
  const bytes = Number(length);
  return hasEnded && bytes > 0 ? "unclear" : bytes;
}
