/**
 * Names of hosts that a rule means: `example.com` itself, `*.example.com` whatever lies below it at any depth, `*`
 * every name. Letters are the same in either case, and a name may end with the dot of the root.
 */
const NAME_MAX_CHARS = 253;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** Undefined: it is none. Otherwise as `DomainPatterns` takes it. */
export function domainPattern(text: string): string | undefined {
  const pattern = plain(text);
  if (pattern === "*") return pattern;
  const name = pattern.startsWith("*.") ? pattern.slice(2) : pattern;
  return isName(name) ? pattern : undefined;
}

export class DomainPatterns {
  readonly #names = new Set<string>();
  /** Of what lies below them. */
  readonly #parents = new Set<string>();
  readonly #isAll: boolean;

  constructor(patterns: readonly string[]) {
    this.#isAll = patterns.includes("*");
    for (const pattern of patterns) {
      if (pattern.startsWith("*.")) this.#parents.add(pattern.slice(2));
      else this.#names.add(pattern);
    }
  }

  /** False for what is no name of a host, also an address. */
  match(name: string): boolean {
    const wanted = plain(name);
    if (!isName(wanted)) return false;
    if (this.#isAll || this.#names.has(wanted)) return true;
    for (let dot = wanted.indexOf("."); dot > 0; dot = wanted.indexOf(".", dot + 1)) {
      if (this.#parents.has(wanted.slice(dot + 1))) return true;
    }
    return false;
  }
}

/** Letters of ASCII alone: there are others that turn into one of these, and then a name is not what it was. */
function plain(text: string): string {
  return (text.endsWith(".") ? text.slice(0, -1) : text).replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** A last label of digits would be read as an address somewhere. */
function isName(text: string): boolean {
  if (text.length > NAME_MAX_CHARS) return false;
  const labels = text.split(".");
  return labels.every((label) => LABEL.test(label)) && !/^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "");
}
