/**
 * Bypasses the protocol library for the bulk of a long stream. The library builds and checks every message by its
 * schema, but process output is always the same message around different bytes. A service may open a source of encoded
 * envelopes. Whenever the client's stream takes more, the source is asked before the library, so a slow client holds it
 * back and a fast one gets data without an intermediate step.
 *
 * Kept because the benchmark row `output` misses its bound (at least 0.2 ×) without it: 0.07 × (73 MiB/s) with every
 * message made by the library, 0.42 × (248 MiB/s) with this, in the same minute.
 */
import { GARBAGE_PER_MESSAGE_BYTES } from "../limits.ts";
import { noteGarbage } from "../system/garbage.ts";

export type Codec = "json" | "proto";

/** Returns waiting bytes or undefined. The bytes of the previous call have been sent by then. */
type Source = () => Uint8Array | undefined;

export class Shortcut {
  /** Set from the response header before a service runs. */
  codec: Codec = "json";
  #source: Source | undefined;
  #wake: (() => void) | undefined;

  /** Call this after the library has produced all earlier messages. */
  open(source: Source): void {
    this.#source = source;
    this.ready();
  }

  ready(): void {
    this.#wake?.();
  }

  /** Drops the source, because the client no longer reads. */
  close(): void {
    this.#source = undefined;
  }

  /** Merges the source with the library's messages. Each call returns the next piece; undefined is the end. */
  merged(made: AsyncIterator<Uint8Array>): () => Uint8Array | undefined | Promise<Uint8Array | undefined> {
    let isPulling = false;
    let pulled: { result: IteratorResult<Uint8Array> } | { thrown: unknown } | undefined;
    const note = (news: typeof pulled) => {
      pulled = news;
      this.#wake?.();
    };
    const next = (): Uint8Array | undefined | Promise<Uint8Array | undefined> => {
      this.#wake = undefined;
      const given = this.#source?.();
      if (given !== undefined) return given;
      if (!isPulling) {
        isPulling = true;
        // Requested once, not per piece: racing a new promise each time would leave pending reactions behind.
        made.next().then(
          (result) => note({ result }),
          (thrown: unknown) => note({ thrown }),
        );
      }
      if (pulled === undefined) {
        return new Promise<void>((resolve) => {
          this.#wake = resolve;
        }).then(next);
      }
      if ("thrown" in pulled) throw pulled.thrown;
      const { value, done } = pulled.result;
      if (done === true) return undefined;
      isPulling = false;
      pulled = undefined;
      noteGarbage(value.length + GARBAGE_PER_MESSAGE_BYTES);
      return value;
    };
    return next;
  }
}
