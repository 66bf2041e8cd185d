/**
 * Finds the sandbox and port of a request. Two forms: the host name `{port}-{sandboxID}.{domain}`, or the headers
 * E2b-Sandbox-Id and E2b-Sandbox-Port on any other host. A host name of the first form overrides the headers.
 */
import { SANDBOX_ID } from "../../contract/ids.ts";
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

const PORT_MAX = 65_535;

/**
 * Port and id of a host name. The id ends at the next dash (older clients append their own id) or with the label. No
 * sandbox id begins with a digit, but names made of an address do: 192-168-1-5.example.com.
 */
const SANDBOX_HOST = /^(\d+)-(?!\d)(?=[^.]*\.)([^.:-]*)/;

/**
 * Characters that no host name contains. Two Host headers arrive joined by a comma: the service would see both, so the
 * intended one is unknown. And Bun.serve puts the host before the target: a slash or a question mark in it would change
 * the path that the client, or a proxy in front, has seen.
 */
const NO_HOST = /[^\w.:[\]-]/;

/** Undefined: the request is for no sandbox, so it belongs to the management API. */
export function addressOf(headers: ReadHeaders): SandboxAddress | Misaddressed | undefined {
  const host = headers.get("host") ?? "";
  const [, portInHost, idInHost = ""] = SANDBOX_HOST.exec(host) ?? [];
  if (portInHost !== undefined) {
    const address = validated(idInHost, portInHost);
    return "problem" in address || !NO_HOST.test(host) ? address : { problem: "Invalid host" };
  }
  const id = headers.get(SANDBOX_ID_HEADER);
  const port = headers.get("e2b-sandbox-port");
  if (id === null && port === null) return undefined;
  if (id === null || port === null) return { problem: "missing header" };
  if (NO_HOST.test(host)) return { problem: "Invalid host" };
  return validated(id, port);
}

/** Whether the host names no sandbox, so that the response comes from the server's own address. */
export function isOnOwnAddress(headers: ReadHeaders): boolean {
  return !SANDBOX_HOST.test(headers.get("host") ?? "");
}

function validated(sandboxId: string, portText: string): SandboxAddress | Misaddressed {
  if (!SANDBOX_ID.test(sandboxId)) return { problem: "Invalid sandbox ID" };
  const port = /^\d{1,5}$/.test(portText) ? Number(portText) : 0;
  return port >= 1 && port <= PORT_MAX ? { sandboxId, port } : { problem: "Invalid sandbox port" };
}
