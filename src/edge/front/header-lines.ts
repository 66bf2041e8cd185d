/**
 * The header lines of a head, as they came: in their order, with each name in small letters and each value byte for
 * byte (one letter for each byte). Cheaper than `Headers`, and lines of the same name stay apart.
 */
/** What can be asked of them, and of `Headers`. */
export interface ReadHeaders {
  /** The values of all lines of that name; null: there is none. */
  get(name: string): string | null;
  has(name: string): boolean;
}

export class HeaderLines implements ReadHeaders {
  readonly #names: string[] = [];
  readonly #values: string[] = [];

  get size(): number {
    return this.#names.length;
  }

  /** `name` is in small letters, here and below. */
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

  /** How many lines have this name. */
  count(name: string): number {
    let count = 0;
    for (const one of this.#names) if (one === name) count += 1;
    return count;
  }

  /** The same without that name, or with this as its one value. */
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
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** A name of a header, or a method. */
export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

/** Adds one line, given without its end. False: it is none, as one that is folded or has a space before the colon. */
export function appendLine(lines: HeaderLines, line: string, isValue: RegExp): boolean {
  const colon = line.indexOf(":");
  if (colon <= 0) return false;
  const written = line.slice(0, colon);
  const name = KNOWN.get(written) ?? (TOKEN.test(written) ? written.toLowerCase() : undefined);
  if (name === undefined) return false;
  const value = withoutSpaceAround(line, colon + 1);
  if (!isValue.test(value)) return false;
  lines.append(name, value);
  return true;
}

function withoutSpaceAround(line: string, from: number): string {
  let [start, end] = [from, line.length];
  while (start < end && isSpace(line.charCodeAt(start))) start += 1;
  while (end > start && isSpace(line.charCodeAt(end - 1))) end -= 1;
  return line.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Names that come with nearly every request or answer, as they are mostly written: not to be looked at each time. */
const KNOWN: ReadonlyMap<string, string> = new Map(
  [
    ["Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Connection", "Content-Length"],
    ["Content-Type", "Cookie", "Date", "ETag", "Host", "Last-Modified", "Server", "Transfer-Encoding", "User-Agent"],
    ["E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token", "Accept-Ranges", "Location", "Vary"],
  ]
    .flat()
    .flatMap((name): [string, string][] => [
      [name, name.toLowerCase()],
      [name.toLowerCase(), name.toLowerCase()],
    ]),
);
