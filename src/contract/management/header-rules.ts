/**
 * Header rules in requests and responses: headers that the server sets on HTTPS requests of a sandbox to some host
 * names. Messages name rules and headers, never values.
 */
import { z } from "zod";
import { RULE_FORBIDDEN_HEADERS } from "../connection-headers.ts";
import { domainPattern } from "../domain-pattern.ts";
import { type HeaderPart, headerParts } from "../header-placeholders.ts";
import { quoted } from "../quoted-text.ts";
import {
  RULE_HEADER_NAME_MAX_CHARS,
  RULE_HEADER_VALUE_MAX_CHARS,
  RULE_HEADERS_MAX,
  RULE_NAME_MAX_CHARS,
  RULE_NAMES_MAX,
  RULE_PLACEHOLDERS_MAX,
} from "./limits.ts";
import { objectMap } from "./object-map.ts";
import { stringMap } from "./string-map.ts";

export interface HeaderRule {
  transform?: { headers?: Record<string, string> | null | undefined } | null | undefined;
}

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Visible characters, spaces and tabs, as HTTP allows them in a value. */
const HEADER_TEXT = /^[\t\x20-\x7e\x80-\xff]*$/;

const headers = stringMap(function* (given) {
  const entries = Object.entries(given);
  if (entries.length > RULE_HEADERS_MAX) {
    yield { message: `must have at most ${RULE_HEADERS_MAX} entries, got ${entries.length}` };
    return;
  }
  const seen = new Set<string>();
  let placeholders = 0;
  for (const [name, value] of entries) {
    const message = nameProblem(name, seen) ?? valueProblem(value);
    if (message !== undefined) yield { key: name, message };
    seen.add(name.toLowerCase());
    placeholders += (headerParts(value) ?? []).filter((part) => !("text" in part)).length;
  }
  if (placeholders > RULE_PLACEHOLDERS_MAX) {
    yield { message: `must have at most ${RULE_PLACEHOLDERS_MAX} placeholders together, got ${placeholders}` };
  }
});

const ruleSet: z.ZodType<HeaderRule[]> = z
  .array(z.object({ transform: z.object({ headers: headers.nullish() }).nullish() }))
  .max(1)
  .describe("At most one rule for each name");

export const headerRules = objectMap(ruleSet, function* (names) {
  if (names.length > RULE_NAMES_MAX) {
    yield { message: `must have at most ${RULE_NAMES_MAX} entries, got ${names.length}` };
  }
  const longest = Math.max(0, ...names.map(({ length }) => length));
  if (longest > RULE_NAME_MAX_CHARS) {
    yield { message: `must have names of at most ${RULE_NAME_MAX_CHARS} characters, got one of ${longest}` };
  }
  const seen = new Set<string>();
  for (const name of names) {
    const message = hostProblem(name, seen);
    if (message !== undefined) yield { name, message };
    seen.add(domainPattern(name) ?? name);
  }
});

export const shownHeaderRules = z.record(
  z.string(),
  z.array(z.object({ transform: z.object({ headers: stringMap().optional() }).optional() })),
);

/** All parts of all values of a rule; what cannot be parsed has none. */
export function partsOf(rules: readonly HeaderRule[]): HeaderPart[] {
  return rules.flatMap(({ transform }) => Object.values(transform?.headers ?? {}).flatMap((v) => headerParts(v) ?? []));
}

function hostProblem(name: string, seen: ReadonlySet<string>): string | undefined {
  const pattern = domainPattern(name);
  if (pattern === undefined || pattern === "*") {
    return "is not a host name such as api.example.com or *.example.com; write neither scheme nor port";
  }
  return seen.has(pattern) ? `has a rule already, as ${quoted(pattern)}` : undefined;
}

function nameProblem(name: string, seen: ReadonlySet<string>): string | undefined {
  if (name.length > RULE_HEADER_NAME_MAX_CHARS) {
    return `must have a name of at most ${RULE_HEADER_NAME_MAX_CHARS} characters, got ${name.length}`;
  }
  if (!HEADER_NAME.test(name)) return "is not a name of a header";
  if (RULE_FORBIDDEN_HEADERS.has(name.toLowerCase()))
    return "is a header that only the server itself sets; leave it out";
  return seen.has(name.toLowerCase()) ? "is named twice: upper and lower case are the same" : undefined;
}

function valueProblem(value: string): string | undefined {
  if (value.length > RULE_HEADER_VALUE_MAX_CHARS) {
    return `must have at most ${RULE_HEADER_VALUE_MAX_CHARS} characters, got ${value.length}`;
  }
  if (headerParts(value) === undefined) {
    return `has a malformed placeholder; write \${e2b.secrets.NAME} or \${e2b.identity.tokens.NAME}`;
  }
  return isHeaderText(value)
    ? undefined
    : "must not hold control characters such as line breaks, or letters beyond Latin-1";
}

/** Whether a text can be sent as the value of a header. */
export function isHeaderText(value: string): boolean {
  return HEADER_TEXT.test(value);
}
