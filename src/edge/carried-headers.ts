/**
 * Which headers travel. Those about one connection stay on that connection (RFC 9110, 7.6.1); what the sender claims
 * about proxies before us is not believed; the control secret and the team's own keys never pass. All others are left
 * as they came, and none is added but where the creator of the sandbox asked for it.
 */
import { ACCESS_TOKEN_PREFIX, API_KEY_PREFIX } from "../contract/management/identifiers.ts";
import { CONTROL_SECRET_HEADER } from "../contract/runtime/guest-control.ts";

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

/** Changes the headers of a received request into those that the sandbox gets. */
export function towardsSandbox(headers: Headers): void {
  const dropped: string[] = [];
  let named: string | undefined;
  headers.forEach((value, name) => {
    if (name === "connection") named = value;
    if (staysBehind(name, value)) dropped.push(name);
  });
  for (const name of dropped) headers.delete(name);
  if (named !== undefined) dropNamed(headers, named);
}

/** Changes the headers of a sandbox's response into those that the client gets. */
export function towardsClient(headers: Headers): void {
  const named = headers.get("connection");
  for (const name of CONNECTION_ONLY) headers.delete(name);
  if (named !== null) dropNamed(headers, named);
}

/** The service is told this host, and by another header the one that the client asked for. */
export function maskHost(headers: Headers, asked: string | null, maskedHost: string): void {
  headers.set("host", maskedHost);
  if (asked !== null) headers.set(FORWARDED_HOST, asked);
}

/** As lines of a request's head, Host first. Throws for what would not stay within its line. */
export function headerLines(headers: Headers): string {
  let lines = headerLine("Host", headers.get("host") ?? "");
  headers.forEach((value, name) => {
    if (name !== "host" && TOKEN.test(name)) lines += headerLine(name, value);
  });
  return lines;
}

/** Letters that are cut to a byte could become the end of a line. */
const BEYOND_ONE_LINE = /[\0\r\n]|[^\0-\xff]/;

function headerLine(name: string, value: string): string {
  if (BEYOND_ONE_LINE.test(value)) throw new Error(`the header ${name} holds what no header may`);
  return `${name}: ${value}\r\n`;
}

function staysBehind(name: string, value: string): boolean {
  return (
    CONNECTION_ONLY.has(name) ||
    name === "forwarded" ||
    name.startsWith(FORWARDED_PREFIX) ||
    name === CONTROL_SECRET_HEADER ||
    (name === "x-api-key" && OWN_KEY.test(value)) ||
    (name === "authorization" && OWN_BEARER.test(value)) ||
    // Bun.serve has already told the client to continue.
    name === "expect"
  );
}

/** Host stays whatever Connection says: without it the sandbox would be shown its address on this machine. */
function dropNamed(headers: Headers, connection: string): void {
  for (const part of connection.split(",")) {
    const name = part.trim().toLowerCase();
    if (isToken(name) && name !== "host") headers.delete(name);
  }
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

/** Headers.delete throws on anything else. */
function isToken(name: string): boolean {
  return TOKEN.test(name);
}
