/**
 * A way past the protocol library for what most of a long stream consists of. The library makes and checks every
 * message by description, in a dozen steps; output of a process is always the same message around other bytes. A
 * service may give such envelopes here, ready for the wire, in between those that it has the library make. Each waits
 * until the client's stream takes it, as a message of the library does.
 */
export type Codec = "json" | "proto";

export class Shortcut {
  /** Known before a service runs: the answer's head says it. */
  codec: Codec = "json";
  #given: Uint8Array | undefined;
  #onTaken: (() => void) | undefined;
  #onGiven: (() => void) | undefined;
  #closed = false;

  /** Settles when it was taken, or when nobody will. To be called again only then. */
  give(envelopes: Uint8Array): Promise<void> | undefined {
    if (this.#closed) return undefined;
    this.#given = envelopes;
    this.#onGiven?.();
    return new Promise((resolve) => {
      this.#onTaken = resolve;
    });
  }

  /** Nobody takes any more. */
  close(): void {
    this.#closed = true;
    this.#given = undefined;
    this.#onTaken?.();
  }

  /** All that the library makes and that is given here, in the order in which the service made it. */
  async *joined(made: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
    let asked = false;
    let answer: { result: IteratorResult<Uint8Array> } | { thrown: unknown } | undefined;
    const note = (news: typeof answer) => {
      answer = news;
      this.#onGiven?.();
    };
    for (;;) {
      if (!asked) {
        asked = true;
        // Asked once and not for each piece: who waits for one of two leaves something behind at the other.
        made.next().then(
          (result) => note({ result }),
          (thrown: unknown) => note({ thrown }),
        );
      }
      if (this.#given === undefined && answer === undefined) {
        await new Promise<void>((resolve) => {
          this.#onGiven = resolve;
        });
        this.#onGiven = undefined;
      }
      const given = this.#take();
      if (given !== undefined) {
        yield given;
      } else if (answer !== undefined) {
        if ("thrown" in answer) throw answer.thrown;
        if (answer.result.done === true) return;
        const { value } = answer.result;
        asked = false;
        answer = undefined;
        yield value;
      }
    }
  }

  #take(): Uint8Array | undefined {
    const given = this.#given;
    this.#given = undefined;
    if (given !== undefined) this.#onTaken?.();
    return given;
  }
}
