/** What a client has not taken yet. It says when there is too much of it, and when there is room again. */
import type { Socket } from "bun";
import { EDGE_ANSWER_PIECE_OVERHEAD_BYTES, EDGE_ANSWER_WAITING_MAX_BYTES } from "../limits.ts";
import { releaseBufferOf } from "./release-piece.ts";

export class UnsentBytes {
  readonly #pieces: Buffer<ArrayBuffer>[] = [];
  #cost = 0;
  #isFull = false;

  get isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  /** Nothing more for now: `flush` tells when there is room again. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Sends the bytes, or as much as can be; nobody else may hold any part of their buffer. False: no more for now. */
  send<Data>(socket: Socket<Data>, bytes: Buffer<ArrayBuffer>): boolean {
    if (this.#pieces.length > 0) this.#keep(bytes);
    else {
      const sent = Math.max(socket.write(bytes), 0);
      if (sent === bytes.length) releaseBufferOf(bytes);
      else this.#keep(sent === 0 ? bytes : bytes.subarray(sent));
    }
    if (this.#cost >= EDGE_ANSWER_WAITING_MAX_BYTES) this.#isFull = true;
    return !this.#isFull;
  }

  /** Keeps the bytes until `flush` is called. */
  sendLater(bytes: Buffer<ArrayBuffer>): void {
    this.#keep(bytes);
    if (this.#cost >= EDGE_ANSWER_WAITING_MAX_BYTES) this.#isFull = true;
  }

  /** The client takes more. True: there is room again where there was none. */
  flush<Data>(socket: Socket<Data>): boolean {
    for (;;) {
      const next = this.#pieces[0];
      if (next === undefined) break;
      const sent = Math.max(socket.write(next), 0);
      if (sent < next.length) {
        this.#pieces[0] = next.subarray(sent);
        this.#cost -= sent;
        break;
      }
      this.#pieces.shift();
      this.#cost -= next.length + EDGE_ANSWER_PIECE_OVERHEAD_BYTES;
      releaseBufferOf(next);
    }
    if (!this.#isFull || this.#cost > EDGE_ANSWER_WAITING_MAX_BYTES / 2) return false;
    this.#isFull = false;
    return true;
  }

  #keep(bytes: Buffer<ArrayBuffer>): void {
    this.#pieces.push(bytes);
    this.#cost += bytes.length + EDGE_ANSWER_PIECE_OVERHEAD_BYTES;
  }
}
