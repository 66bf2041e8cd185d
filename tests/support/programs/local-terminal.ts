/** A local terminal with a program in it: what a person sees and types. */
import { stripVTControlCharacters } from "node:util";
import { until } from "../until.ts";

const READ_MS = 120_000;

export class LocalTerminal implements Disposable {
  readonly #decoder = new TextDecoder();
  readonly #child: Bun.Subprocess;
  #shown = "";
  /** How much of the text has been read. */
  #read = 0;

  constructor({ argv, env }: { argv: string[]; env: Record<string, string> }, size = { cols: 80, rows: 24 }) {
    this.#child = Bun.spawn(argv, {
      env,
      terminal: {
        ...size,
        data: (_, bytes) => {
          this.#shown += this.#decoder.decode(bytes, { stream: true });
        },
      },
    });
  }

  /** Everything shown and not yet read, without colours and the like. */
  get text(): string {
    return stripVTControlCharacters(this.#shown).slice(this.#read);
  }

  get exited(): Promise<number> {
    return this.#child.exited;
  }

  type(text: string): void {
    this.#child.terminal?.write(text);
  }

  resize(cols: number, rows: number): void {
    this.#child.terminal?.resize(cols, rows);
  }

  /** Waits until `expected` is shown, and takes everything up to its end as read. */
  async read(expected: RegExp): Promise<RegExpExecArray> {
    let found: RegExpExecArray | null = null;
    const problem = () => `the terminal shows ${expected}; it shows ${JSON.stringify(this.text.slice(-2000))}`;
    await until(
      problem,
      () => {
        found = expected.exec(this.text);
        return found !== null;
      },
      READ_MS,
    );
    const match = found as unknown as RegExpExecArray;
    this.#read += match.index + match[0].length;
    return match;
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
    this.#child.terminal?.close();
  }
}
