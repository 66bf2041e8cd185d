/** Serves the management API in the server's process: Bun's own server behind the edge, on an abstract socket. */
import http from "node:http";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MAX_BYTES } from "./limits.ts";
import { newManagementSocket, PEER_HEADER, peerOf } from "./proxy/management-peer.ts";
import { clientAddress, isFromProxy, NO_PROXIES, type TrustedProxies } from "./routing/client-address.ts";

/** Head limit of this server, with room for the headers that the edge adds. */
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

export function serveManagement(services: ManagementServices) {
  const { management, trustedProxies = NO_PROXIES, idleSeconds = EDGE_IDLE_MS / 1000 } = services;
  const socket = newManagementSocket();
  // Applies to every server of the process; this is the only one.
  Object.assign(http, { maxHeaderSize: Math.max(http.maxHeaderSize, EDGE_INNER_HEAD_MAX_BYTES) });
  // The types allow it for ports only; Bun accepts it for sockets too. Per-request timeouts work for ports only.
  const limit: object = { idleTimeout: idleSeconds };
  const server = Bun.serve({
    unix: socket.unix,
    development: false,
    // No limit here, because bodies are streamed and limited where they are read; the default is 128 MiB.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    ...limit,
    fetch(request) {
      const { address, isSecure } = peerOf(request.headers.get(PEER_HEADER), socket);
      request.headers.delete(PEER_HEADER);
      return management(request, {
        address: clientAddress(address, request.headers, trustedProxies),
        fromTrustedProxy: isFromProxy(address, trustedProxies),
        isSecure,
      });
    },
  });
  return { socket, stop: (force: boolean) => server.stop(force) };
}
