/**
 * A way past the protocol library for the bulk of a long stream. The library makes and checks every message by its
 * description; output of a process is always the same message around other bytes. A service may open a source of such
 * envelopes, ready for the wire. It is asked whenever the client's stream takes more, before the library: a slow client
 * holds the source back, and a fast one waits for no step in between.
 *
 * Kept because the benchmark row `output` misses its bound (at least 0.2 ×) without it: 0.07 × (73 MiB/s) with every
 * message made by the library, 0.42 × (248 MiB/s) with this, in the same minute.
 */
import { GARBAGE_PER_MESSAGE_BYTES } from "../limits.ts";
import { noteGarbage } from "../system/garbage.ts";

export type Codec = "json" | "proto";

/** Gives what waits there, or nothing. What it gave before has been passed on by then. */
type Source = () => Uint8Array | undefined;

export class Shortcut {
  /** Known before a service runs: the answer's head says it. */
  codec: Codec = "json";
  #source: Source | undefined;
  #wake: (() => void) | undefined;

  /** To be called by a service when the library has made all that comes before. */
  open(source: Source): void {
    this.#source = source;
    this.ready();
  }

  /** The source has something to give. */
  ready(): void {
    this.#wake?.();
  }

  /** Nobody takes any more. */
  close(): void {
    this.#source = undefined;
  }

  /**
   * All that the source gives and that the library makes, piece by piece: the next one, at once if there is one.
   * Undefined is the end.
   */
  joined(made: AsyncIterator<Uint8Array>): () => Uint8Array | undefined | Promise<Uint8Array | undefined> {
    let asked = false;
    let answer: { result: IteratorResult<Uint8Array> } | { thrown: unknown } | undefined;
    const note = (news: typeof answer) => {
      answer = news;
      this.#wake?.();
    };
    const next = (): Uint8Array | undefined | Promise<Uint8Array | undefined> => {
      this.#wake = undefined;
      const given = this.#source?.();
      if (given !== undefined) return given;
      if (!asked) {
        asked = true;
        // Asked once and not for each piece: who waits for one of two leaves something behind at the other.
        made.next().then(
          (result) => note({ result }),
          (thrown: unknown) => note({ thrown }),
        );
      }
      if (answer === undefined) {
        return new Promise<void>((resolve) => {
          this.#wake = resolve;
        }).then(next);
      }
      if ("thrown" in answer) throw answer.thrown;
      const { value, done } = answer.result;
      if (done === true) return undefined;
      asked = false;
      answer = undefined;
      noteGarbage(value.length + GARBAGE_PER_MESSAGE_BYTES);
      return value;
    };
    return next;
  }
}
