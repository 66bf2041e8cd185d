/**
 * Bun's own server for the management interface, behind the front, on an abstract Unix socket. Requests of the front
 * carry a secret: without it, another program of this machine that finds the socket gains nothing over a client at the
 * front.
 */
import { timingSafeEqual } from "node:crypto";
import http from "node:http";
import type { Server } from "bun";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MAX_BYTES } from "./limits.ts";

/** No limit here, because bodies are streamed and limited where they are read; Bun.serve's default is 128 MiB. */
const EDGE_REQUEST_BODY_MAX_BYTES = Number.MAX_SAFE_INTEGER;
/** Head limit of the inner server, with room for the headers that the front adds. */
const EDGE_INNER_HEAD_MAX_BYTES = 2 * EDGE_REQUEST_HEAD_MAX_BYTES;

/** The other end of the client's connection. */
interface Peer {
  address: string;
  isSecure: boolean;
}

type Answering = (request: Request, peer: Peer) => Promise<Response>;

/** The front sends the peer in this header. */
export const PEER_HEADER = "x-sandlot-peer";
const STRANGER: Peer = { address: "", isSecure: false };

/** The socket of the server, and the secret that identifies the front. */
export interface InnerDoor {
  unix: string;
  secret: string;
}

/** The header line that tells the inner server the client's address. */
export function peerLine({ secret }: InnerDoor, { peer, isSecure }: { peer: string; isSecure: boolean }): string {
  return `${PEER_HEADER}: ${secret} ${isSecure ? "https" : "http"} ${peer}\r\n`;
}

export class InnerServer {
  readonly #server: Server<undefined>;
  readonly door: InnerDoor = { unix: `\0sandlot-${crypto.randomUUID()}`, secret: crypto.randomUUID() };

  constructor(answer: Answering, idleSeconds = EDGE_IDLE_MS / 1000) {
    // Applies to all servers of the process, of which this is the only one.
    Object.assign(http, { maxHeaderSize: Math.max(http.maxHeaderSize, EDGE_INNER_HEAD_MAX_BYTES) });
    // The types allow it for ports only; Bun accepts it for sockets too. Per-request timeouts work for ports only.
    const limit: object = { idleTimeout: idleSeconds };
    this.#server = Bun.serve({
      unix: this.door.unix,
      development: false,
      // Bodies are limited where they are read.
      maxRequestBodySize: EDGE_REQUEST_BODY_MAX_BYTES,
      ...limit,
      fetch: (request) => {
        const peer = this.#peerOf(request.headers.get(PEER_HEADER));
        request.headers.delete(PEER_HEADER);
        return answer(request, peer);
      },
    });
  }

  async stop(force: boolean): Promise<void> {
    await this.#server.stop(force);
  }

  #peerOf(told: string | null): Peer {
    const [secret = "", scheme, address = ""] = told?.split(" ") ?? [];
    const [given, right] = [Buffer.from(secret), Buffer.from(this.door.secret)];
    if (given.length !== right.length || !timingSafeEqual(given, right)) return STRANGER;
    return { address, isSecure: scheme === "https" };
  }
}
