/**
 * Which headers travel. Those about one connection stay on that connection (RFC 9110, 7.6.1); what the sender claims
 * about proxies before us is not believed; the control secret never passes. All others are left as they came.
 */
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

/** Changes the headers of a received request into those that the sandbox gets. */
export function towardsSandbox(headers: Headers): void {
  const dropped: string[] = [];
  let named: string | undefined;
  headers.forEach((value, name) => {
    if (name === "connection") named = value;
    if (staysBehind(name)) dropped.push(name);
  });
  for (const name of dropped) headers.delete(name);
  if (named !== undefined) dropNamed(headers, named);
  // Left out, fetch would sign as itself.
  if (!headers.has("user-agent")) headers.set("user-agent", "");
}

/** Changes the headers of a sandbox's response into those that the client gets. */
export function towardsClient(headers: Headers): void {
  const named = headers.get("connection");
  for (const name of CONNECTION_ONLY) headers.delete(name);
  if (named !== null) dropNamed(headers, named);
}

function staysBehind(name: string): boolean {
  return (
    CONNECTION_ONLY.has(name) ||
    name === "forwarded" ||
    name.startsWith(FORWARDED_PREFIX) ||
    name === CONTROL_SECRET_HEADER ||
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
