/** Changes of a text at places of the text as it was, made all at once. */

interface Edit {
  start: number;
  end: number;
  text: string;
  order: number;
}

export class SourceEdits {
  readonly #source: string;
  readonly #edits: Edit[] = [];

  constructor(source: string) {
    this.#source = source;
  }

  replace(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text, order: this.#edits.length });
  }

  /** As many lines as before, so that all that follows stays where it is. */
  replaceKeepingLines(start: number, end: number, text: string): void {
    this.replace(start, end, text + "\n".repeat(this.#source.slice(start, end).split("\n").length - 1));
  }

  /** Of several at one place, those that are to be first come before those that were asked for earlier. */
  insert(at: number, text: string, place: "first" | "last" = "last"): void {
    this.#edits.push({ start: at, end: at, text, order: place === "first" ? -1 : this.#edits.length });
  }

  text(): string {
    const parts: string[] = [];
    let at = 0;
    for (const { start, end, text } of this.#edits.sort((a, b) => a.start - b.start || a.order - b.order)) {
      parts.push(this.#source.slice(at, start), text);
      at = Math.max(at, end);
    }
    return parts.join("") + this.#source.slice(at);
  }
}
