/**
 * Variables that a Dockerfile has set so far. ARG variables exist only during the build and are known here. ENV
 * variables stay in the image. Variables of the base image are unknown until it is fetched: the host expands them in
 * ENV, and other instructions that use them are rejected rather than given an empty value.
 */
import { ENV_VARIABLE_MAX_BYTES } from "../../contract/management/limits.ts";
import { faultAt } from "./dockerfile-fault.ts";
import type { Part, Variable } from "./words.ts";

/** `text` undefined: certainly unset. */
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

  /** Variables that commands see in addition to ENV. */
  get args(): [name: string, text: string][] {
    const set = [...this.#args].filter((entry): entry is [string, string] => entry[1] !== undefined);
    return set.filter(([name]) => !this.#env.has(name));
  }

  /** Expands all parts. `what` is the instruction that needs the text. */
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
      typeof part === "string" || (this.#valueOf(part.name).known && part.word.every(isKnown));
    return parts.every(isKnown) ? this.text(parts, line, "ENV") : undefined;
  }

  /**
   * A template for the host, which expands `$NAME`, `${NAME}` and `${NAME:-word}` with the values of that moment and
   * reads `\$` as a dollar. The host does not know ARG variables, so they are expanded here.
   */
  template(parts: readonly Part[], line: number): string {
    let text = "";
    // Tracked per piece: checking the end of the whole text each time would take quadratic time.
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
    const value = this.#valueOf(name);
    if (!value.known) {
      const fix = `set it with ENV or ARG before this line; what the base image sets is not known to ${what}`;
      throw faultAt(line, `${what} uses $${name}, which the Dockerfile does not set; ${fix}`);
    }
    const { text } = value;
    // With a colon, an empty variable counts as unset.
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

  #valueOf(name: string): Value {
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

/** A few lines in which each variable doubles the previous one would otherwise fill the memory. */
function refuseTooLong(text: string, line: number): void {
  if (text.length > ENV_VARIABLE_MAX_BYTES) {
    throw faultAt(line, `its variables make more than ${ENV_VARIABLE_MAX_BYTES} characters`);
  }
}
