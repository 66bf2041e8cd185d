/** Collects edits at positions of the original text and applies them at once. */

interface Edit {
  start: number;
  end: number;
  text: string;
  order: number;
}

export class SourceEdits {
  readonly #edits: Edit[] = [];

  constructor(private readonly source: string) {}

  replace(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text, order: this.#edits.length });
  }

  /** Keeps the number of lines, so that later lines do not move. */
  replaceKeepingLines(start: number, end: number, text: string): void {
    this.replace(start, end, text + "\n".repeat(this.source.slice(start, end).split("\n").length - 1));
  }

  /** Several insertions at one position: `first` ones precede those added earlier. */
  insert(at: number, text: string, place: "first" | "last" = "last"): void {
    this.#edits.push({ start: at, end: at, text, order: place === "first" ? -1 : this.#edits.length });
  }

  text(): string {
    const parts: string[] = [];
    let at = 0;
    for (const { start, end, text } of this.#edits.sort((a, b) => a.start - b.start || a.order - b.order)) {
      parts.push(this.source.slice(at, start), text);
      at = Math.max(at, end);
    }
    return parts.join("") + this.source.slice(at);
  }
}
