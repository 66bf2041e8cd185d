/**
 * Connections that switch from HTTP to another protocol, such as WebSockets. The edge forwards the offer and, once the
 * service has accepted, passes bytes both ways without reading them.
 */
import { type HeaderLines, isToken } from "../../http1/header-lines.ts";
import type { ClientRequest } from "../front/client-request.ts";

/**
 * HTTP/2 without TLS is never offered to a service: its requests would bypass the edge and reach the service with
 * headers that the edge drops, such as API keys.
 */
const NEVER_OFFERED: ReadonlySet<string> = new Set(["h2c"]);

/** The protocols that a request offers, as sent to the service. Undefined: none. */
export function upgradeOf({ tunnel, headers }: Pick<ClientRequest, "tunnel" | "headers">): string | undefined {
  const offered = headers.get("upgrade");
  if (offered === null || tunnel === undefined) return undefined;
  if (!listed(headers.get("connection") ?? "").includes("upgrade")) return undefined;
  const protocols = listed(offered).filter((one) => isProtocol(one) && !NEVER_OFFERED.has(one));
  return protocols.length === 0 ? undefined : protocols.join(", ");
}

/** The protocol that the service chose, if it was offered. */
export function acceptedUpgrade(offered: string | undefined, answer: HeaderLines): string | undefined {
  const chosen = answer.get("upgrade")?.trim().toLowerCase();
  return chosen !== undefined && offered?.split(", ").includes(chosen) ? chosen : undefined;
}

function listed(value: string): string[] {
  return value.split(",").map((part) => part.trim().toLowerCase());
}

/** A name, optionally with a version after a slash. */
function isProtocol(text: string): boolean {
  const parts = text.split("/");
  return parts.length <= 2 && parts.every(isToken);
}
