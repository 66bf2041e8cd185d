/**
 * The head of a service's response, and what arrived after it. Interim responses (100, 103) are skipped: the edge has
 * sent the client 100 Continue already, and early hints are only hints.
 */
import { type ResponseHead, ResponseHeadReader, SWITCHING_PROTOCOLS } from "../../http1/response-head.ts";

export const EDGE_RESPONSE_HEAD_MAX_BYTES = 64 * 1024;

export interface ServiceHead extends ResponseHead {
  /** Bytes of the body that came together with the head. */
  rest: Buffer<ArrayBuffer>;
}

const OK = 200;

export class ServiceHeadReader {
  /** Bytes left for all heads together. */
  #bytesLeft = EDGE_RESPONSE_HEAD_MAX_BYTES;
  #reader = new ResponseHeadReader({ maxBytes: EDGE_RESPONSE_HEAD_MAX_BYTES });

  /** Undefined: more has to come. Throws `BadHead`. */
  take(bytes: Buffer<ArrayBuffer>): ServiceHead | undefined {
    for (let more = bytes; ; ) {
      const found = this.#reader.take(more);
      if (found === undefined) return undefined;
      const { status, statusText, headers } = found.head;
      if (status >= OK || status === SWITCHING_PROTOCOLS) return { status, statusText, headers, rest: found.rest };
      this.#bytesLeft -= found.raw.length;
      this.#reader = new ResponseHeadReader({ maxBytes: this.#bytesLeft });
      more = found.rest;
    }
  }
}
