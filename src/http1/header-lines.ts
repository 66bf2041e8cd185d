/**
 * Header lines of one message in order: names in lower case, values byte for byte (latin1). Cheaper than `Headers`, and
 * lines with the same name stay separate.
 */

/** The part of `Headers` that `HeaderLines` also has. */
export interface ReadHeaders {
  /** The joined values of all lines with this name; null if there are none. */
  get(name: string): string | null;
  has(name: string): boolean;
}

export class HeaderLines implements ReadHeaders {
  readonly #names: string[] = [];
  readonly #values: string[] = [];

  get size(): number {
    return this.#names.length;
  }

  /** `name` is in lower case, here and below. */
  append(name: string, value: string): void {
    this.#names.push(name);
    this.#values.push(value);
  }

  has(name: string): boolean {
    return this.#names.includes(name);
  }

  get(name: string): string | null {
    const first = this.#names.indexOf(name);
    if (first < 0) return null;
    let value = this.#values[first] ?? "";
    for (let at = this.#names.indexOf(name, first + 1); at >= 0; at = this.#names.indexOf(name, at + 1)) {
      value += `${name === "cookie" ? "; " : ", "}${this.#values[at] ?? ""}`;
    }
    return value;
  }

  /** Number of lines with this name. */
  count(name: string): number {
    let count = 0;
    for (const one of this.#names) if (one === name) count += 1;
    return count;
  }

  /** A copy without this name, or with `instead` as its only value. */
  without(name: string, instead?: string): HeaderLines {
    const lines = new HeaderLines();
    this.forEach((value, own) => {
      if (own !== name) lines.append(own, value);
    });
    if (instead !== undefined) lines.append(name, instead);
    return lines;
  }

  forEach(each: (value: string, name: string) => void): void {
    for (let at = 0; at < this.#names.length; at += 1) each(this.#values[at] ?? "", this.#names[at] ?? "");
  }

  /** The lines in HTTP/1.1 form. */
  get text(): string {
    let text = "";
    for (let at = 0; at < this.#names.length; at += 1) text += `${this.#names[at]}: ${this.#values[at]}\r\n`;
    return text;
  }
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Whether the text can be a header name or a method. */
export function isToken(text: string): boolean {
  return TOKEN.test(text);
}
