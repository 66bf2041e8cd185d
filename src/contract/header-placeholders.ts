/**
 * Placeholders in the values of header rules: `${e2b.secrets.NAME}` and `${e2b.identity.tokens.NAME}`. All other text,
 * also other `${…}`, stays as it is.
 */

export type HeaderPart = { text: string } | { secret: string } | { token: string };

const PLACEHOLDER = /\$\{e2b\.([^}]*)(\}?)/g;
/** Any name that the official client accepts. */
const REFERENCE = /^(secrets|identity\.tokens)\.([^{}\p{Cc}]+)$/u;

/** Undefined: a text begins like a placeholder, but is none. */
export function headerParts(value: string): HeaderPart[] | undefined {
  const parts: HeaderPart[] = [];
  let at = 0;
  for (const match of value.matchAll(PLACEHOLDER)) {
    const [whole, inner = "", end] = match;
    const [, kind, name] = REFERENCE.exec(inner) ?? [];
    if (end !== "}" || name === undefined) return undefined;
    if (match.index > at) parts.push({ text: value.slice(at, match.index) });
    parts.push(kind === "secrets" ? { secret: name } : { token: name });
    at = match.index + whole.length;
  }
  if (at < value.length) parts.push({ text: value.slice(at) });
  return parts;
}
