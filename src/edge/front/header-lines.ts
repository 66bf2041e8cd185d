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

  /** As HTTP/1.1 has them. */
  get text(): string {
    let text = "";
    for (let at = 0; at < this.#names.length; at += 1) text += `${this.#names[at]}: ${this.#values[at]}\r\n`;
    return text;
  }
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** A name of a header, or a method. */
export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

const COLON = 0x3a;
const CARRIAGE_RETURN = 0x0d;
const LINE_FEED = 0x0a;

/** For each byte, whether it may be in a name. */
const IN_NAME = bytesLike(TOKEN);

/** What may be in a value, and whether a line may end without a carriage return. */
interface LineRules {
  inValue: Uint8Array;
  mayEndBare: boolean;
}

/** For each byte 1 if it is what the expression asks for, else 0: it is dear to ask the expression each time. */
export function bytesLike(one: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (one.test(String.fromCharCode(byte)) ? 1 : 0));
}

/**
 * Adds the lines in these bytes, of which the last has no end. Read byte by byte: an expression for each line takes
 * three times as long. False: one is no line of a header, as one that is folded or has a space before the colon.
 */
export function appendLines(lines: HeaderLines, bytes: Buffer, from: number, to: number, rules: LineRules): boolean {
  const { inValue, mayEndBare } = rules;
  const text = bytes.toString("latin1", from, to);
  for (let at = from; ; ) {
    let colon = at;
    while (colon < to && IN_NAME[bytes[colon] as number] === 1) colon += 1;
    if (colon === at || colon === to || bytes[colon] !== COLON) return false;
    let end = colon + 1;
    while (end < to && inValue[bytes[end] as number] === 1) end += 1;
    let start = colon + 1;
    while (start < end && isSpace(bytes[start])) start += 1;
    let stop = end;
    while (stop > start && isSpace(bytes[stop - 1])) stop -= 1;
    lines.append(nameOf(text.slice(at - from, colon - from)), text.slice(start - from, stop - from));
    if (end === to) return true;
    if (bytes[end] === CARRIAGE_RETURN && bytes[end + 1] === LINE_FEED) at = end + 2;
    else if (mayEndBare && bytes[end] === LINE_FEED) at = end + 1;
    else return false;
  }
}

function isSpace(code: number | undefined): boolean {
  return code === 0x20 || code === 0x09;
}

function nameOf(written: string): string {
  return KNOWN.get(written) ?? written.toLowerCase();
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
