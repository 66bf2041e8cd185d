/**
 * Which headers travel. Those about one connection stay on that connection (RFC 9110, 7.6.1); what the sender claims
 * about proxies before us is not believed; the control secret and the team's own keys never pass. All others are left
 * as they came, and none is added but where the creator of the sandbox asked for it.
 */
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../../contract/management/identifiers.ts";
import { CONTROL_SECRET_HEADER } from "../../contract/runtime/guest-control.ts";
import { HeaderLines, isToken } from "../../http1/header-lines.ts";

const CONNECTION_ONLY: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const FORWARDED_PREFIX = "x-forwarded-";
const FORWARDED_HOST = "x-forwarded-host";

/** A key of a team opens all its sandboxes. Told by its form, so that a service's own keys pass under the same name. */
const OWN_KEY = new RegExp(`(?:^|[\\s,])${API_KEY_PREFIX}`);
const OWN_BEARER = new RegExp(`(?:^|[\\s,])bearer\\s+(?:${API_KEY_PREFIX}|${ACCESS_TOKEN_PREFIX})`, "i");

/**
 * The header lines that a service gets, Host first. With a masked host it is told that one, and by another header the
 * one that the client asked for. Throws for what would not stay within its line.
 */
export function linesTowardsSandbox(headers: HeaderLines, maskedHost: string | null): string {
  const asked = headers.get("host");
  const named = namesIn(headers.get("connection"));
  let lines = headerLine("Host", maskedHost ?? asked ?? "");
  headers.forEach((value, name) => {
    if (name === "host" || named?.has(name) === true || staysBehind(name, headers)) return;
    lines += headerLine(name, value);
  });
  return maskedHost === null || asked === null ? lines : lines + headerLine(FORWARDED_HOST, asked);
}

/**
 * The header lines that the management interface gets: as they came, but for those about the connection and the one
 * that is ours to say.
 */
export function linesTowardsManagement(headers: HeaderLines, reserved: string): string {
  let lines = headerLine("Host", headers.get("host") ?? "");
  headers.forEach((value, name) => {
    // We have told the client to continue already.
    const isOurs = name === "host" || name === "expect" || name === reserved;
    if (!isOurs && !CONNECTION_ONLY.has(name)) lines += headerLine(name, value);
  });
  return lines;
}

/** The headers of a sandbox's answer that the client gets. */
export function linesTowardsClient(headers: HeaderLines): HeaderLines {
  const named = namesIn(headers.get("connection"));
  const lines = new HeaderLines();
  headers.forEach((value, name) => {
    if (!CONNECTION_ONLY.has(name) && named?.has(name) !== true) lines.append(name, value);
  });
  return lines;
}

/** Letters that are cut to a byte could become the end of a line. */
const BEYOND_ONE_LINE = /[\0\r\n]|[^\0-\xff]/;

function headerLine(name: string, value: string): string {
  if (BEYOND_ONE_LINE.test(value)) throw new Error(`the header ${name} holds what no header may`);
  return `${name}: ${value}\r\n`;
}

function staysBehind(name: string, headers: HeaderLines): boolean {
  return (
    CONNECTION_ONLY.has(name) ||
    name === "forwarded" ||
    name.startsWith(FORWARDED_PREFIX) ||
    name === CONTROL_SECRET_HEADER ||
    // Of several, all: it is not said which one is meant.
    (name === "x-api-key" && OWN_KEY.test(headers.get(name) ?? "")) ||
    (name === "authorization" && OWN_BEARER.test(headers.get(name) ?? "")) ||
    // The client has been told to continue by us.
    name === "expect"
  );
}

/** Host and the length of the body stay whatever Connection says: without them another request would be meant. */
const NOT_TO_BE_NAMED: ReadonlySet<string> = new Set(["host", "content-length"]);

function namesIn(connection: string | null): Set<string> | undefined {
  // What it says nearly always names no header but one that stays anyway.
  if (connection === null || connection === "close" || connection === "keep-alive") return undefined;
  const names = connection.split(",").map((part) => part.trim().toLowerCase());
  return new Set(names.filter((name) => isToken(name) && !NOT_TO_BE_NAMED.has(name)));
}
