/**
 * Bun's own server, behind the front, on a socket of this machine that has no file. It answers for the management
 * interface. It trusts nothing that cannot have come from the front alone, which shows a secret: another program of
 * this machine that finds the socket is no better off than at the front.
 */
import { timingSafeEqual } from "node:crypto";
import http from "node:http";
import type { Server } from "bun";
import { EDGE_IDLE_MS, EDGE_REQUEST_HEAD_MAX_BYTES } from "./limits.ts";

/** Bodies to sandboxes are streamed, so their size is not ours to limit; Bun.serve would by default (128 MiB). */
const EDGE_REQUEST_BODY_MAX_BYTES = Number.MAX_SAFE_INTEGER;
/** What Bun's own server behind us takes: what the front adds has room. */
const EDGE_INNER_HEAD_MAX_BYTES = 2 * EDGE_REQUEST_HEAD_MAX_BYTES;

/** The other end of the client's connection. */
interface Peer {
  address: string;
  isSecure: boolean;
}

type Answering = (request: Request, peer: Peer) => Promise<Response>;

/** By which the front says who the peer is. */
export const PEER_HEADER = "x-sandlot-peer";
const STRANGER: Peer = { address: "", isSecure: false };

/** Where such a server is, and the word by which it knows the front. */
export interface InnerDoor {
  unix: string;
  secret: string;
}

/** A header line that says who sends a request, for that server alone. */
export function peerLine({ secret }: InnerDoor, { peer, isSecure }: { peer: string; isSecure: boolean }): string {
  return `${PEER_HEADER}: ${secret} ${isSecure ? "https" : "http"} ${peer}\r\n`;
}

export class InnerServer {
  readonly #server: Server<undefined>;
  readonly door: InnerDoor = { unix: `\0sandlot-${crypto.randomUUID()}`, secret: crypto.randomUUID() };

  constructor(answer: Answering, idleSeconds = EDGE_IDLE_MS / 1000) {
    // For all servers of the process, of which this is the one.
    Object.assign(http, { maxHeaderSize: Math.max(http.maxHeaderSize, EDGE_INNER_HEAD_MAX_BYTES) });
    // Types have it for ports alone, Bun has it for all. What is said for one request alone counts for ports alone.
    const limit: object = { idleTimeout: idleSeconds };
    this.#server = Bun.serve({
      unix: this.door.unix,
      development: false,
      // Bodies are bounded where they are read.
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
