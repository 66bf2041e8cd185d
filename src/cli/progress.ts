/** Shows progress of long work on a terminal, so that it does not look hung. */
const LINE_EVERY_MS = 2_000;
/** Interval of output while the work prints nothing. */
const SIGN_OF_LIFE_MS = 10_000;
const SHOWN_CHARS = 100;

export class Progress implements Disposable {
  #begun = 0;
  #shown = 0;
  #latest = "";
  readonly #alive = setInterval(() => {
    if (this.#latest !== "" && performance.now() - this.#shown >= SIGN_OF_LIFE_MS) this.#show();
  }, SIGN_OF_LIFE_MS / 2);

  begin(what: string): void {
    this.#begun = this.#shown = performance.now();
    this.#latest = "working";
    console.error(`sandlot: ${what}`);
  }

  line(text: string): void {
    this.#latest = text;
    if (performance.now() - this.#shown >= LINE_EVERY_MS) this.#show();
  }

  end(): void {
    this.#latest = "";
    console.error(`  done in ${Math.round((performance.now() - this.#begun) / 1000)} s`);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#alive);
  }

  #show(): void {
    this.#shown = performance.now();
    console.error(`  ${Math.round((this.#shown - this.#begun) / 1000)} s  ${this.#latest.slice(0, SHOWN_CHARS)}`);
  }
}
