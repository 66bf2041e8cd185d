/**
 * Finds the sandbox and port of a request. Two forms: the host name `{port}-{sandboxID}.{domain}`, or the headers
 * E2b-Sandbox-Id and E2b-Sandbox-Port on any other host. A host name of the first form overrides the headers.
 */
import type { ReadHeaders } from "../../http1/header-lines.ts";

export interface SandboxAddress {
  sandboxId: string;
  port: number;
}

/** The client meant a sandbox but named it wrongly. */
export interface Misaddressed {
  problem: string;
}

export const SANDBOX_ID_HEADER = "e2b-sandbox-id";

const DASH = 45;
const DOT = 46;
const COLON = 58;
const PORT_MAX = 65_535;
const PORT_DIGITS_MAX = 5;

/**
 * Characters that no host name contains. Two Host headers arrive joined by a comma: the service would see both, so the
 * intended one is unknown. And Bun.serve puts the host before the target: a slash or a question mark in it would change
 * the path that the client, or a proxy in front, has seen.
 */
const NO_HOST = /[^\w.:[\]-]/;

/** Undefined: the request is for no sandbox, so it belongs to the management interface. */
export function addressOf(headers: ReadHeaders): SandboxAddress | Misaddressed | undefined {
  const host = headers.get("host");
  if (host !== null) {
    const dash = endOfSandboxPort(host);
    if (dash > 0) return fromHost(host, dash);
  }
  const id = headers.get(SANDBOX_ID_HEADER);
  const port = headers.get("e2b-sandbox-port");
  if (id === null && port === null) return undefined;
  if (id === null || port === null) return { problem: "missing header" };
  if (host !== null && NO_HOST.test(host)) return { problem: "Invalid host" };
  return validated(id, port);
}

/**
 * Position of the dash when the host name's first label begins with digits and a dash, and other labels follow; else 0.
 */
function endOfSandboxPort(host: string): number {
  let at = 0;
  while (at < host.length && isDigit(host.charCodeAt(at))) at += 1;
  if (at === 0 || host.charCodeAt(at) !== DASH) return 0;
  // No sandbox id begins with a digit, but names made of an address do: 192-168-1-5.example.com.
  if (isDigit(host.charCodeAt(at + 1))) return 0;
  return host.indexOf(".", at) > 0 ? at : 0;
}

function fromHost(host: string, dash: number): SandboxAddress | Misaddressed {
  let end = dash + 1;
  while (end < host.length && !endsId(host.charCodeAt(end))) end += 1;
  const address = validated(host.slice(dash + 1, end), host.slice(0, dash));
  return "problem" in address || !NO_HOST.test(host) ? address : { problem: "Invalid host" };
}

/** The id ends at the next dash (older clients append their own id) or with the label. */
function endsId(code: number): boolean {
  return code === DASH || code === DOT || code === COLON;
}

function validated(sandboxId: string, portText: string): SandboxAddress | Misaddressed {
  if (!isSandboxId(sandboxId)) return { problem: "Invalid sandbox ID" };
  const port = portNumber(portText);
  return port === undefined ? { problem: "Invalid sandbox port" } : { sandboxId, port };
}

function isSandboxId(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (!isDigit(code) && (code < 97 || code > 122)) return false;
  }
  return text.length > 0;
}

function portNumber(text: string): number | undefined {
  if (text.length === 0 || text.length > PORT_DIGITS_MAX) return undefined;
  for (let at = 0; at < text.length; at += 1) if (!isDigit(text.charCodeAt(at))) return undefined;
  const port = Number(text);
  return port >= 1 && port <= PORT_MAX ? port : undefined;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
