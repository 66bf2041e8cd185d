/**
 * Where frames of HTTP/2 end in the bytes of a connection. What they say is for the library; how many there are decides
 * how long it takes to read them, whether they carry a byte each or 16 KiB.
 */

/** What a client sends before its first frame (RFC 9113, 3.4). */
const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;
const LENGTH_BYTES = 3;

export class Http2Frames {
  /** Of the frame that is being read. */
  #left = PREFACE_BYTES;
  #headBytes = 0;
  #length = 0;

  /** How many of the bytes that come next hold so many frames, or all of them if they hold fewer. */
  take(bytes: Uint8Array, most: number): number {
    let [at, frames] = [0, 0];
    while (at < bytes.length) {
      if (this.#left > 0) {
        const taken = Math.min(this.#left, bytes.length - at);
        this.#left -= taken;
        at += taken;
      } else if (this.#headBytes === 0 && frames === most) break;
      else {
        if (this.#headBytes < LENGTH_BYTES) this.#length = this.#length * 256 + (bytes[at] as number);
        at += 1;
        this.#headBytes += 1;
        if (this.#headBytes < HEAD_BYTES) continue;
        frames += 1;
        [this.#left, this.#headBytes, this.#length] = [this.#length, 0, 0];
      }
    }
    return at;
  }
}
