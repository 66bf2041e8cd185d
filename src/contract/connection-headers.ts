/** Headers that belong to one connection, and so to no forwarded message. All names are in lower case. */

/** Connection-specific headers, which HTTP/2 forbids (RFC 9113, 8.2.2). */
export const HTTP2_FORBIDDEN_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/** Hop-by-hop headers, which no proxy forwards (RFC 9110, 7.6.1). */
export const HOP_BY_HOP_HEADERS: ReadonlySet<string> = new Set([
  ...HTTP2_FORBIDDEN_HEADERS,
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
]);

/** Headers that no header rule may set: hop-by-hop ones, and those that frame the message or name its site. */
export const RULE_FORBIDDEN_HEADERS: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP_HEADERS,
  "content-length",
  "expect",
  "host",
  "http2-settings",
]);
