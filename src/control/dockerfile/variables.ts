/**
 * The variables that a Dockerfile has set so far. Those of ARG are for the build alone and known here; those of ENV
 * stay in the image. What the base image has set is known to nobody before it is fetched: the host expands it in ENV,
 * elsewhere it is refused rather than taken for empty.
 */
import { ENV_VARIABLE_MAX_BYTES } from "../../contract/management/limits.ts";
import { faultAt } from "./dockerfile-fault.ts";
import type { Part, Variable } from "./words.ts";

/** Undefined: unset, for certain. */
type Value = { known: true; text: string | undefined } | { known: false };

export class Variables {
  /** Undefined where the text depends on the base image. */
  readonly #env = new Map<string, string | undefined>();
  readonly #args = new Map<string, string | undefined>();

  setEnv(name: string, text: string | undefined): void {
    this.#env.set(name, text);
  }

  setArg(name: string, text: string | undefined): void {
    this.#args.set(name, text);
  }

  arg(name: string): string | undefined {
    return this.#args.get(name);
  }

  /** What commands find in their environment besides ENV. */
  get args(): [name: string, text: string][] {
    const set = [...this.#args].filter((entry): entry is [string, string] => entry[1] !== undefined);
    return set.filter(([name]) => !this.#env.has(name));
  }

  /** All of it as text. `what` is the instruction that needs it. */
  text(parts: readonly Part[], line: number, what: string): string {
    let text = "";
    for (const part of parts) {
      text += typeof part === "string" ? part : this.#textOf(part, line, what);
      refuseTooLong(text, line);
    }
    return text;
  }

  /** Undefined when it depends on the base image. */
  textIfKnown(parts: readonly Part[], line: number): string | undefined {
    const isKnown = (part: Part): boolean =>
      typeof part === "string" || (this.#look(part.name).known && part.word.every(isKnown));
    return parts.every(isKnown) ? this.text(parts, line, "ENV") : undefined;
  }

  /**
   * For the host, which expands `$NAME`, `${NAME}` and `${NAME:-word}` with what the build has set by then, and reads
   * `\$` as a dollar. Variables of ARG are not among that and are expanded here.
   */
  template(parts: readonly Part[], line: number): string {
    let text = "";
    // Looked for in each piece: to look at the end of the whole would take as long as it is, each time.
    let isEscape = false;
    for (const part of parts) {
      const next = typeof part === "string" ? part.replaceAll("$", "\\$") : this.#templateOf(part, line);
      if (isEscape && next.startsWith("$")) {
        throw faultAt(line, "a backslash right before a variable is not supported");
      }
      text += next;
      if (next !== "") isEscape = next.endsWith("\\");
      refuseTooLong(text, line);
    }
    return text;
  }

  #templateOf(variable: Variable, line: number): string {
    const { name, modifier, word } = variable;
    if (this.#isArg(name)) return this.#textOf(variable, line, "ENV").replaceAll("$", "\\$");
    if (modifier === null) return `\${${name}}`;
    const inner = this.template(word, line);
    if (inner.includes("}") && !word.every((part) => typeof part !== "string" || !part.includes("}"))) {
      throw faultAt(line, `a } inside of \${${name}${modifier}…} is not supported`);
    }
    return `\${${name}${modifier}${inner}}`;
  }

  #textOf({ name, modifier, word }: Variable, line: number, what: string): string {
    const value = this.#look(name);
    if (!value.known) {
      const fix = `set it with ENV or ARG before this line; what the base image sets is not known to ${what}`;
      throw faultAt(line, `${what} uses $${name}, which the Dockerfile does not set; ${fix}`);
    }
    const { text } = value;
    // With a colon an empty variable counts as one that is not set.
    const isSet = modifier?.startsWith(":") ? text !== undefined && text !== "" : text !== undefined;
    switch (modifier?.replace(":", "")) {
      case "-":
        return isSet ? (text ?? "") : this.text(word, line, what);
      case "+":
        return isSet ? this.text(word, line, what) : "";
      case "?":
        if (!isSet) throw faultAt(line, `$${name} is not set: ${this.text(word, line, what)}`);
        return text ?? "";
      default:
        return text ?? "";
    }
  }

  #look(name: string): Value {
    if (this.#env.has(name)) {
      const text = this.#env.get(name);
      return text === undefined ? { known: false } : { known: true, text };
    }
    return this.#args.has(name) ? { known: true, text: this.#args.get(name) } : { known: false };
  }

  #isArg(name: string): boolean {
    return this.#args.has(name) && !this.#env.has(name);
  }
}

/** A few lines in which each variable is twice the one before would fill any memory. */
function refuseTooLong(text: string, line: number): void {
  if (text.length > ENV_VARIABLE_MAX_BYTES) {
    throw faultAt(line, `its variables make more than ${ENV_VARIABLE_MAX_BYTES} characters`);
  }
}
