/** Counts complete HTTP/1.1 responses in the bytes of a connection, in whatever pieces they come. */
import { Fault } from "../../src/contract/fault.ts";

const HEAD_END = Buffer.from("\r\n\r\n");
const HEAD_MAX_BYTES = 64 * 1024;

export class ResponseCounter {
  #head = Buffer.alloc(0);
  /** Remaining bytes of the body; undefined: the head is incomplete. */
  #left: number | undefined;

  /** Returns the number of responses that this piece completes. Throws unless each is a 200 with a length. */
  take(piece: Uint8Array): number {
    let rest = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let whole = 0;
    for (;;) {
      if (this.#left === undefined) {
        const gathered = this.#head.length === 0 ? rest : Buffer.concat([this.#head, rest]);
        const end = gathered.indexOf(HEAD_END);
        if (end < 0) {
          this.#head = requireShort(gathered);
          return whole;
        }
        this.#left = bodyBytes(gathered.toString("latin1", 0, end));
        this.#head = Buffer.alloc(0);
        rest = gathered.subarray(end + HEAD_END.length);
      }
      const taken = Math.min(this.#left, rest.length);
      this.#left -= taken;
      rest = rest.subarray(taken);
      if (this.#left > 0) return whole;
      whole += 1;
      this.#left = undefined;
      if (rest.length === 0) return whole;
    }
  }
}

/** Copies the head, because the socket reuses the buffer of the piece. */
function requireShort(head: Buffer): Buffer<ArrayBuffer> {
  if (head.length > HEAD_MAX_BYTES) throw new Fault(500, `the head of an answer has more than ${HEAD_MAX_BYTES} bytes`);
  return Buffer.from(head);
}

function bodyBytes(head: string): number {
  const length = /^content-length:\s*(\d+)\s*$/im.exec(head)?.[1];
  if (!/^HTTP\/1\.1 200\b/.test(head) || length === undefined) {
    throw new Fault(500, `an answer is not 200 with a length: ${JSON.stringify(head.slice(0, 200))}`);
  }
  return Number(length);
}
