/**
 * Expands `$VAR` and `${VAR}` in arguments of steps as Docker does: also `${VAR:-word}`, `${VAR:+word}` and
 * `${VAR:?word}`, without the colon where an empty variable counts as set, and `\$` for a dollar sign. Words are
 * expanded as well, commands are not substituted, and an unset variable is empty.
 */
import { Fault } from "../contract/fault.ts";
import { BUILD_VALUE_MAX_BYTES } from "./limits.ts";

const BUILD_VARIABLES_NESTED_MAX = 16;

const PLAIN = /\$([A-Za-z_]\w*)/y;
const BRACED = /\$\{([A-Za-z_]\w*)(?:(:?)([-+?]))?/y;

/** Fault 422: the result exceeds the size of any variable. Otherwise a few steps could double a value without end. */
export function expand(text: string, variables: Readonly<Record<string, string>>): string {
  return new Expansion(text, variables).between(0, text.length, 0);
}

class Expansion {
  readonly #closings: ReadonlyMap<number, number>;
  #bytes = 0;

  constructor(
    private readonly text: string,
    private readonly variables: Readonly<Record<string, string>>,
  ) {
    this.#closings = closingsIn(text);
  }

  between(begin: number, end: number, depth: number): string {
    let result = "";
    let at = begin;
    while (at < end) {
      const sign = this.text.indexOf("$", at);
      const isEscaped = sign > at && this.text[sign - 1] === "\\";
      const plainEnd = sign < 0 || sign >= end ? end : isEscaped ? sign - 1 : sign;
      result += this.#counted(this.text.slice(at, plainEnd));
      if (plainEnd === end) break;
      const [meaning, next] = isEscaped ? [this.#counted("$"), sign + 1] : this.#reference(sign, depth);
      result += meaning;
      at = next;
    }
    return result;
  }

  /** The value of a reference and its end. A dollar sign that starts no reference is literal. */
  #reference(at: number, depth: number): [meaning: string, end: number] {
    const plain = matchAt(PLAIN, this.text, at);
    if (plain !== null) return [this.#counted(this.#valueOf(plain[1] ?? "") ?? ""), at + plain[0].length];
    const braced = matchAt(BRACED, this.text, at);
    const closing = this.#closings.get(at);
    const wordAt = at + (braced?.[0].length ?? 0);
    if (braced === null || closing === undefined || (braced[3] === undefined && wordAt !== closing)) {
      return [this.#counted("$"), at + 1];
    }
    if (depth >= BUILD_VARIABLES_NESTED_MAX) {
      throw new Fault(422, `variables are nested deeper than ${BUILD_VARIABLES_NESTED_MAX} levels`);
    }
    const [, name = "", colon, rule] = braced;
    const value = this.#valueOf(name);
    const isSet = value !== undefined && (colon !== ":" || value !== "");
    const word = () => this.between(wordAt, closing, depth + 1);
    if (rule === "?" && !isSet) throw new Fault(422, `$${name} is not set: ${word()}`);
    if (rule === "+") return [isSet ? word() : "", closing + 1];
    return [rule === "-" && !isSet ? word() : this.#counted(value ?? ""), closing + 1];
  }

  #valueOf(name: string): string | undefined {
    return Object.hasOwn(this.variables, name) ? this.variables[name] : undefined;
  }

  #counted(piece: string): string {
    this.#bytes += Buffer.byteLength(piece);
    if (this.#bytes <= BUILD_VALUE_MAX_BYTES) return piece;
    throw new Fault(
      422,
      `${JSON.stringify(this.text.slice(0, 100))} has more than ${BUILD_VALUE_MAX_BYTES} bytes with its variables put in`,
    );
  }
}

/** Maps the start of each `${` to its end, in one pass, so that an unclosed one is not scanned twice. */
function closingsIn(text: string): Map<number, number> {
  const closings = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && text[at + 1] === "$") at++;
    else if (text[at] === "$" && text[at + 1] === "{") open.push(at++);
    else if (text[at] === "}") {
      const begin = open.pop();
      if (begin !== undefined) closings.set(begin, at);
    }
  }
  return closings;
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
