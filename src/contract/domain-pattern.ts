/**
 * Patterns for host names: `example.com` matches itself, `*.example.com` everything below it at any depth, `*` every
 * name. Matching ignores case, and a name may end with the dot of the root.
 */
const NAME_MAX_CHARS = 253;
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** The normalised pattern for `DomainPatterns`; undefined: not a pattern. */
export function domainPattern(text: string): string | undefined {
  const pattern = plain(text);
  if (pattern === "*") return pattern;
  const name = pattern.startsWith("*.") ? pattern.slice(2) : pattern;
  return isName(name) ? pattern : undefined;
}

export class DomainPatterns {
  readonly #names = new Set<string>();
  /** Parents of `*.` patterns. */
  readonly #parents = new Set<string>();
  readonly #isAll: boolean;

  constructor(patterns: readonly string[]) {
    this.#isAll = patterns.includes("*");
    for (const pattern of patterns) {
      if (pattern.startsWith("*.")) this.#parents.add(pattern.slice(2));
      else this.#names.add(pattern);
    }
  }

  /** False for anything that is not a host name, including an address. */
  match(name: string): boolean {
    return this.closest(name) !== undefined;
  }

  /** The pattern that describes the name most closely: the name itself, else the longest one. */
  closest(name: string): string | undefined {
    const wanted = plain(name);
    if (!isName(wanted)) return undefined;
    if (this.#names.has(wanted)) return wanted;
    for (let dot = wanted.indexOf("."); dot > 0; dot = wanted.indexOf(".", dot + 1)) {
      const parent = wanted.slice(dot + 1);
      if (this.#parents.has(parent)) return `*.${parent}`;
    }
    return this.#isAll ? "*" : undefined;
  }
}

/** Lowercases ASCII letters only: some other letters would turn into ASCII and change the name. */
function plain(text: string): string {
  return (text.endsWith(".") ? text.slice(0, -1) : text).replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** A last label of digits could be read as an address. */
function isName(text: string): boolean {
  if (text.length > NAME_MAX_CHARS) return false;
  const labels = text.split(".");
  return labels.every((label) => LABEL.test(label)) && !/^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? "");
}
