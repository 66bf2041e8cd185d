/** Finds stored values of tenants that look like secrets. Ordinary words do not: without them no log is readable. */

const SECRET_NAME = /pass|secret|token|key|credential|auth|private|signature|dsn|pwd/i;
const NAMED_MIN_CHARS = 6;
/** A shorter value of another name is no key. */
const UNNAMED_MIN_CHARS = 12;
const VARIETY_MIN_CHARS = 8;
const LIKELY_SECRETS_MAX = 2_000;

/** Values that are likely secrets by their names, such as those of environment variables, as they look inside JSON. */
export function likelySecrets(objects: readonly object[]): string[] {
  const found = new Set<string>();
  for (const object of objects) {
    for (const [name, value] of named(object)) {
      if (found.size >= LIKELY_SECRETS_MAX) return [...found];
      if (isLikelySecret(name, value)) found.add(JSON.stringify(value).slice(1, -1));
    }
  }
  return [...found];
}

function isLikelySecret(name: string, value: string): boolean {
  const classes = [/[a-z]/, /[A-Z]/, /\d/, /[^a-zA-Z\d]/].filter((each) => each.test(value)).length;
  const isVaried = new Set(value).size >= VARIETY_MIN_CHARS && /[a-z]/i.test(value) && /\d/.test(value);
  if (value.length >= UNNAMED_MIN_CHARS) return SECRET_NAME.test(name) || isVaried;
  // A short single word, such as `status`, occurs everywhere.
  return SECRET_NAME.test(name) && value.length >= NAMED_MIN_CHARS && classes > 1;
}

function* named(value: unknown, name = ""): Generator<[name: string, value: string]> {
  if (typeof value === "string") yield [name, value];
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) yield* named(inner, Array.isArray(value) ? name : key);
}
