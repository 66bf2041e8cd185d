/** Bytes that a slow peer has not taken yet. Reports when they are too many and when there is room again. */
import { EDGE_RESPONSE_PIECE_OVERHEAD_BYTES, EDGE_RESPONSE_WAITING_MAX_BYTES } from "../limits.ts";
import { type HeldBytes, OWN_HELD_BYTES } from "./held-bytes.ts";

/** Smaller pieces are not worth freeing explicitly. */
const EDGE_RELEASED_PIECE_MIN_BYTES = 16 * 1024;

/** A socket or a stage before one: takes as many bytes as it can and returns their number. */
interface Written {
  write(bytes: Buffer<ArrayBuffer>): number;
}

export class UnsentBytes {
  readonly #pieces: Buffer<ArrayBuffer>[] = [];
  #held: HeldBytes = OWN_HELD_BYTES;
  #cost = 0;
  #isFull = false;

  constructor(readonly maxBytes = EDGE_RESPONSE_WAITING_MAX_BYTES) {}

  get isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  /** Whether to stop sending; `flush` reports when there is room again. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /** Charges the bytes to this budget from now on. */
  chargeTo(held: HeldBytes): void {
    this.#held.add(-this.#cost);
    this.#held = held;
    held.add(this.#cost);
  }

  /**
   * Sends as many bytes as possible and keeps the rest; no other code may hold any part of their buffer. False: send no
   * more for now.
   */
  send(socket: Written, bytes: Buffer<ArrayBuffer>): boolean {
    if (this.#pieces.length > 0) this.#keep(bytes);
    else {
      const sent = Math.max(socket.write(bytes), 0);
      if (sent === bytes.length) releaseBufferOf(bytes);
      else this.#keep(sent === 0 ? bytes : bytes.subarray(sent));
    }
    return !this.#isFull;
  }

  /** Called when the peer takes more. True: there is room again after `isFull`. */
  flush(socket: Written): boolean {
    for (;;) {
      const next = this.#pieces[0];
      if (next === undefined) break;
      const sent = Math.max(socket.write(next), 0);
      if (sent < next.length) {
        this.#pieces[0] = next.subarray(sent);
        this.#costs(-sent);
        break;
      }
      this.#pieces.shift();
      this.#costs(-next.length - EDGE_RESPONSE_PIECE_OVERHEAD_BYTES);
      releaseBufferOf(next);
    }
    if (!this.#isFull || this.#cost > this.#limit / 2) return false;
    this.#isFull = false;
    return true;
  }

  /** Called when the peer is gone. */
  drop(): void {
    this.#pieces.length = 0;
    this.#costs(-this.#cost);
  }

  get #limit(): number {
    return this.#held.limit(this.maxBytes);
  }

  #keep(bytes: Buffer<ArrayBuffer>): void {
    this.#pieces.push(bytes);
    this.#costs(bytes.length + EDGE_RESPONSE_PIECE_OVERHEAD_BYTES);
    if (this.#cost >= this.#limit) this.#isFull = true;
  }

  #costs(bytes: number): void {
    this.#cost += bytes;
    this.#held.add(bytes);
  }
}

/**
 * Frees the whole buffer of a sent piece: JavaScript's collector would let tens of MiB gather before it runs. A short
 * buffer is detected without accessing `buffer`, which would create an object.
 */
function releaseBufferOf(piece: Buffer<ArrayBuffer>): void {
  if (piece.byteOffset + piece.length >= EDGE_RELEASED_PIECE_MIN_BYTES) piece.buffer.transfer(0);
}
