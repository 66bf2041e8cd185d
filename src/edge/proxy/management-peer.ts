/**
 * How an edge process passes management requests to the server: a Unix socket, and a header that states the client's
 * address. The header carries a secret: without it, another program of this machine that finds the socket gains
 * nothing over a client of the edge.
 */
import { timingSafeEqual } from "node:crypto";

/** The edge states the other end of the client's connection in this header. */
export const PEER_HEADER = "x-sandlot-peer";

/** The server's socket, and the secret that identifies the edge. */
export interface ManagementSocket {
  unix: string;
  secret: string;
}

interface ManagementPeer {
  address: string;
  isSecure: boolean;
}

export function newManagementSocket(): ManagementSocket {
  return { unix: `\0sandlot-${crypto.randomUUID()}`, secret: crypto.randomUUID() };
}

/** The value that states the client's address. */
export function peerValue(
  { secret }: ManagementSocket,
  { peer, isSecure }: { peer: string; isSecure: boolean },
): string {
  return `${secret} ${isSecure ? "https" : "http"} ${peer}`;
}

/** The client that the header states. Without the secret: an unknown one. */
export function peerOf(header: string | null, socket: ManagementSocket): ManagementPeer {
  const [secret = "", scheme, address = ""] = header?.split(" ") ?? [];
  const [given, right] = [Buffer.from(secret), Buffer.from(socket.secret)];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return { address: "", isSecure: false };
  return { address, isSecure: scheme === "https" };
}
