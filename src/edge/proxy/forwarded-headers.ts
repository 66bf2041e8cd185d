/**
 * Selects the headers that the edge forwards. It drops those about one connection (RFC 9110, 7.6.1), claims about
 * earlier proxies, the control secret and keys of the API, and leaves all others unchanged. For a service it adds only
 * headers that the sandbox's creator requested; control and runtimes get the headers that the edge decides.
 */
import { HOP_BY_HOP_HEADERS } from "../../contract/connection-headers.ts";
import { ACCESS_TOKEN_PREFIX, ADMIN_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import { CONTROL_SECRET_HEADER } from "../../contract/runtime/guest-control.ts";
import { HeaderLines, isToken } from "../../http1/header-lines.ts";

const FORWARDED_PREFIX = "x-forwarded-";
const FORWARDED_HOST = "x-forwarded-host";

/**
 * A team's API key opens all its sandboxes. It is recognised by its form, so that a service's own keys pass under the
 * same header.
 */
const OWN_KEY = new RegExp(`(?:^|[\\s,])${API_KEY_PREFIX}`);
const OWN_ADMIN_TOKEN = new RegExp(`(?:^|[\\s,])${ADMIN_TOKEN_PREFIX}`);
const OWN_BEARER = new RegExp(`(?:^|[\\s,])bearer\\s+(?:${API_KEY_PREFIX}|${ACCESS_TOKEN_PREFIX})`, "i");

const NONE = new HeaderLines();
const NO_NAMES: ReadonlySet<string> = new Set();

/**
 * The header lines for a service, Host first. With a masked host, X-Forwarded-Host has the original one. `own` replaces
 * headers of the client, here and below. Throws for a value that would break out of its line.
 */
export function linesTowardsSandbox(headers: HeaderLines, maskedHost: string | null, own = NONE): string {
  const host = headers.get("host");
  const named = namesIn(headers.get("connection"));
  let lines = headerLine("Host", maskedHost ?? host ?? "");
  headers.forEach((value, name) => {
    if (name === "host" || own.has(name) || named?.has(name) === true || isDropped(name, headers)) return;
    lines += headerLine(name, value);
  });
  lines += own.text;
  return maskedHost === null || host === null ? lines : lines + headerLine(FORWARDED_HOST, host);
}

/** The header lines for the management API: unchanged, except those about the connection and the edge's own. */
export function linesTowardsManagement(headers: HeaderLines, own: HeaderLines): string {
  let lines = headerLine("Host", headers.get("host") ?? "");
  headers.forEach((value, name) => {
    // The edge has already sent 100 Continue.
    const isOurs = name === "host" || name === "expect" || own.has(name);
    if (!isOurs && !HOP_BY_HOP_HEADERS.has(name)) lines += headerLine(name, value);
  });
  return lines + own.text;
}

/** The headers of a sandbox's response for the client, without withheld ones. An own Vary is added to others. */
export function linesTowardsClient(headers: HeaderLines, own = NONE, withheld = NO_NAMES): HeaderLines {
  const named = namesIn(headers.get("connection"));
  const lines = new HeaderLines();
  headers.forEach((value, name) => {
    const isReplaced = withheld.has(name) || (own.has(name) && name !== "vary");
    if (!HOP_BY_HOP_HEADERS.has(name) && !isReplaced && named?.has(name) !== true) lines.append(name, value);
  });
  own.forEach((value, name) => {
    lines.append(name, value);
  });
  return lines;
}

/** Characters cut to one byte could become a line end. */
const BEYOND_ONE_LINE = /[\0\r\n]|[^\0-\xff]/;

function headerLine(name: string, value: string): string {
  if (BEYOND_ONE_LINE.test(value)) throw new Error(`the header ${name} has characters that no header may have`);
  return `${name}: ${value}\r\n`;
}

function isDropped(name: string, headers: HeaderLines): boolean {
  return (
    HOP_BY_HOP_HEADERS.has(name) ||
    name === "forwarded" ||
    name.startsWith(FORWARDED_PREFIX) ||
    name === CONTROL_SECRET_HEADER ||
    // With several values all are dropped: it is unclear which one is meant.
    (name === "x-api-key" && OWN_KEY.test(headers.get(name) ?? "")) ||
    (name === "x-admin-token" && OWN_ADMIN_TOKEN.test(headers.get(name) ?? "")) ||
    (name === "authorization" && OWN_BEARER.test(headers.get(name) ?? "")) ||
    // The edge has already sent 100 Continue.
    name === "expect"
  );
}

/** Connection cannot remove Host and Content-Length: without them the request would mean something else. */
const NOT_TO_BE_NAMED: ReadonlySet<string> = new Set(["host", "content-length"]);

function namesIn(connection: string | null): Set<string> | undefined {
  // These common values name no header that would be forwarded.
  if (connection === null || connection === "close" || connection === "keep-alive") return undefined;
  const names = connection.split(",").map((part) => part.trim().toLowerCase());
  return new Set(names.filter((name) => isToken(name) && !NOT_TO_BE_NAMED.has(name)));
}
