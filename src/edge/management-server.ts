/**
 * Serves the management interface: Bun's own server behind the front, on an abstract Unix socket. Requests of the front
 * carry a secret: without it, another program of this machine that finds the socket gains nothing over a client at the
 * front.
 */
import { timingSafeEqual } from "node:crypto";
import http from "node:http";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MAX_BYTES } from "./limits.ts";
import { clientAddress, isFromProxy, TrustedProxies } from "./routing/client-address.ts";

/** Head limit of the inner server, with room for the headers that the front adds. */
const EDGE_INNER_HEAD_MAX_BYTES = 2 * EDGE_REQUEST_HEAD_MAX_BYTES;

interface ManagementServices {
  /** Handles requests that name no sandbox. */
  management(request: Request, client: ManagementClient): Promise<Response>;
  /** Proxies whose forwarding headers are trusted. Default: none. */
  trustedProxies?: TrustedProxies;
  /** Idle timeout of a request, if not the default. */
  idleSeconds?: number;
}

/** The client of a management request. */
interface ManagementClient {
  address: string;
  /** The request came through a proxy that the operator trusts, so its forwarding headers count. */
  fromTrustedProxy: boolean;
  isSecure: boolean;
}

export const NO_PROXIES = new TrustedProxies([]);

/** The front sends the other end of the client's connection in this header. */
export const PEER_HEADER = "x-sandlot-peer";

/** The socket of the server, and the secret that identifies the front. */
export interface ManagementSocket {
  unix: string;
  secret: string;
}

/** The header line that tells the inner server the client's address. */
export function peerLine(
  { secret }: ManagementSocket,
  { peer, isSecure }: { peer: string; isSecure: boolean },
): string {
  return `${PEER_HEADER}: ${secret} ${isSecure ? "https" : "http"} ${peer}\r\n`;
}

export function serveManagement(services: ManagementServices) {
  const { management, trustedProxies = NO_PROXIES, idleSeconds = EDGE_IDLE_MS / 1000 } = services;
  const door: ManagementSocket = { unix: `\0sandlot-${crypto.randomUUID()}`, secret: crypto.randomUUID() };
  // Applies to every server of the process; this is the only one.
  Object.assign(http, { maxHeaderSize: Math.max(http.maxHeaderSize, EDGE_INNER_HEAD_MAX_BYTES) });
  // The types allow it for ports only; Bun accepts it for sockets too. Per-request timeouts work for ports only.
  const limit: object = { idleTimeout: idleSeconds };
  const server = Bun.serve({
    unix: door.unix,
    development: false,
    // No limit here, because bodies are streamed and limited where they are read; the default is 128 MiB.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    ...limit,
    fetch(request) {
      const { address, isSecure } = peerOf(request.headers.get(PEER_HEADER), door);
      request.headers.delete(PEER_HEADER);
      return management(request, {
        address: clientAddress(address, request.headers, trustedProxies),
        fromTrustedProxy: isFromProxy(address, trustedProxies),
        isSecure,
      });
    },
  });
  return { door, stop: (force: boolean) => server.stop(force) };
}

function peerOf(told: string | null, door: ManagementSocket): { address: string; isSecure: boolean } {
  const [secret = "", scheme, address = ""] = told?.split(" ") ?? [];
  const [given, right] = [Buffer.from(secret), Buffer.from(door.secret)];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return { address: "", isSecure: false };
  return { address, isSecure: scheme === "https" };
}
