/**
 * Words in the syntax of a Dockerfile: quotes, escapes and variables. Splitting keeps all of these in the words;
 * reading turns a word into text and variables. One pass each, over bounded text.
 */
import { quoted } from "../../contract/quoted-text.ts";
import { faultAt } from "./dockerfile-fault.ts";

export type Part = string | Variable;

export interface Variable {
  name: string;
  /** `${name:-word}` and its kind; null without one. */
  modifier: Modifier | null;
  word: readonly Part[];
}

type Modifier = "-" | ":-" | "+" | ":+" | "?" | ":?";

const MODIFIER = /:?[-+?]/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]/y;
const NESTED_MAX = 16;

/** Splits at white space that is neither quoted nor escaped. Quotes and escapes stay. */
export function splitWords(text: string, escapeChar: string): string[] {
  const words: string[] = [];
  let word = "";
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (quote === "" && /\s/.test(char)) {
      if (word !== "") words.push(word);
      word = "";
      continue;
    }
    word += char;
    if (char === escapeChar && quote !== "'" && at + 1 < text.length) word += text[++at];
    else if (quote === "" && (char === "'" || char === '"')) quote = char;
    else if (char === quote) quote = "";
  }
  if (word !== "") words.push(word);
  return words;
}

/** The parts of a word, without its quotes and escapes. */
export function readWord(word: string, escapeChar: string, line: number): Part[] {
  return new WordReader(word, escapeChar, line).read();
}

class WordReader {
  #at = 0;
  #depth = 0;

  constructor(
    readonly text: string,
    readonly escapeChar: string,
    readonly line: number,
  ) {}

  read(): Part[] {
    return this.#parts(undefined);
  }

  /** Up to this character, or to the end. */
  #parts(end: string | undefined): Part[] {
    const parts: Part[] = [];
    while (this.#at < this.text.length) {
      const char = this.text[this.#at] ?? "";
      if (char === end) break;
      if (char === "'") add(parts, this.#singleQuoted());
      else if (char === '"') for (const part of this.#doubleQuoted()) add(parts, part);
      else if (char === "$") add(parts, this.#dollar());
      else {
        // An escape at the very end has no effect.
        if (char === this.escapeChar) this.#at++;
        add(parts, this.text[this.#at++] ?? "");
      }
    }
    return parts;
  }

  #singleQuoted(): string {
    const end = this.text.indexOf("'", this.#at + 1);
    if (end < 0) throw this.#unended("'");
    const inner = this.text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return inner;
  }

  #doubleQuoted(): Part[] {
    const parts: Part[] = [];
    this.#at++;
    for (;;) {
      const char = this.text[this.#at];
      if (char === undefined) throw this.#unended('"');
      if (char === '"') break;
      if (char === "$") {
        add(parts, this.#dollar());
        continue;
      }
      const next = this.text[this.#at + 1] ?? "";
      // Before any other character the escape is literal.
      if (char === this.escapeChar && (next === '"' || next === "$" || next === this.escapeChar)) this.#at++;
      add(parts, this.text[this.#at++] ?? "");
    }
    this.#at++;
    return parts;
  }

  #dollar(): Part {
    this.#at++;
    if (this.text[this.#at] !== "{") {
      const name = this.#match(NAME);
      return name === undefined ? "$" : { name, modifier: null, word: [] };
    }
    const begin = this.#at++;
    const name = this.#match(NAME);
    if (name === undefined) throw faultAt(this.line, `\${ without the name of a variable in ${quoted(this.text)}`);
    const modifier = this.text[this.#at] === "}" ? undefined : this.#match(MODIFIER);
    if (++this.#depth > NESTED_MAX) throw faultAt(this.line, `variables are nested deeper than ${NESTED_MAX} levels`);
    const word = modifier === undefined ? [] : this.#parts("}");
    this.#depth--;
    if (this.#at >= this.text.length) throw faultAt(this.line, `\${${name} has no closing brace`);
    if (this.text[this.#at] !== "}") {
      const written = this.text.slice(begin - 1, this.#at + 1);
      throw faultAt(this.line, `${quoted(`${written}…`)} is not supported; after a name come }, :-, :+, :?, -, + or ?`);
    }
    this.#at++;
    return { name, modifier: (modifier as Modifier | undefined) ?? null, word };
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #unended(quote: string) {
    return faultAt(this.line, `a ${quote} without its end in ${quoted(this.text)}`);
  }
}

/** Joins adjacent text into one part. */
function add(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  if (typeof part === "string" && typeof last === "string") parts[parts.length - 1] = last + part;
  else if (part !== "") parts.push(part);
}
