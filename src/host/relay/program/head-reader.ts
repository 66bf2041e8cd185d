/**
 * Finds the end of the head of an HTTP message, in whichever pieces it comes. Lines end with CR LF and nothing else:
 * what one server takes for the end of a line is part of it for another.
 */
import { RELAY_HELLO_MAX_BYTES } from "../../limits.ts";
import type { Said } from "./client-hello.ts";

const CR = 13;
const LF = 10;
const TAB = 9;
const DELETE = 127;

export class HeadReader {
  #pieces: Buffer[] = [];
  #length = 0;
  /** Of the last bytes, how many belong to the empty line that ends a head. */
  #ending = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** All that has come, also when it is no head. */
  get bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  /** A head with its empty line, and what follows it. Starts anew then. */
  add(piece: Buffer): Said<{ head: Buffer; rest: Buffer }> {
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at] as number;
      const expected = this.#ending % 2 === 0 ? CR : LF;
      if (byte === CR || byte === LF) {
        if (byte !== expected) return this.#refuse(piece, "a line does not end with CR LF");
        this.#ending += 1;
      } else if (this.#ending % 2 === 1) return this.#refuse(piece, "a line does not end with CR LF");
      else if ((byte < 32 && byte !== TAB) || byte === DELETE) {
        return this.#refuse(piece, "its head holds a control character");
      } else this.#ending = 0;
      if (this.#length + at >= RELAY_HELLO_MAX_BYTES) {
        return this.#refuse(piece, `its head is longer than ${RELAY_HELLO_MAX_BYTES} bytes`);
      }
      if (this.#ending === 4) {
        this.#pieces.push(piece.subarray(0, at + 1));
        const head = this.bytes;
        this.#pieces = [];
        this.#length = 0;
        this.#ending = 0;
        return { said: { head, rest: piece.subarray(at + 1) } };
      }
    }
    this.#keep(piece);
    return undefined;
  }

  #keep(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
    // Many tiny pieces would cost more than what is in them.
    if (this.#pieces.length > 64) this.#pieces = [Buffer.concat(this.#pieces)];
  }

  #refuse(piece: Buffer, why: string): { refused: string } {
    this.#keep(piece);
    return { refused: why };
  }
}
