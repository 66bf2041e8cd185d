/** Turns what a schema says about a request into one sentence: which field, what it must be, what it was. Never its value. */
import type { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { FIELD_SHOWN_MAX_CHARS, VALIDATION_PROBLEMS_SHOWN } from "../limits.ts";

export function parseWith<S extends z.ZodType>(schema: S, input: unknown, whole: string): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const issues = result.error.issues;
  const shown = issues.slice(0, VALIDATION_PROBLEMS_SHOWN).map((issue) => describe(issue, input, whole));
  const more = issues.length - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  throw new Fault(400, `validation error: ${shown.join("; ")}`);
}

function describe(issue: z.core.$ZodIssue, input: unknown, whole: string): string {
  const field = issue.path.length === 0 ? whole : issue.path.map(String).join(".").slice(0, FIELD_SHOWN_MAX_CHARS);
  const got = `got ${kindOf(valueAt(input, issue.path))}`;
  switch (issue.code) {
    case "invalid_type":
      return `${field} must be ${withArticle(issue.expected)}, ${got}`;
    case "too_small":
      return `${field} must be at least ${issue.minimum}${unit(issue.origin)}, ${got}`;
    case "too_big":
      return `${field} must be at most ${issue.maximum}${unit(issue.origin)}, ${got}`;
    case "invalid_value":
      return `${field} must be one of ${issue.values.map((value) => JSON.stringify(value)).join(", ")}, ${got}`;
    case "invalid_key":
      return `${field}: ${issue.issues[0]?.message ?? "this name is not allowed"}`;
    case "invalid_format":
      // What a pattern means, its schema says in words.
      return `${field} ${issue.format === "regex" ? issue.message : `must be a valid ${issue.format}`}, ${got}`;
    default:
      return `${field} ${issue.message}, ${got}`;
  }
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined),
    input,
  );
}

/** Numbers are shown, because limits are about them; of anything else only the kind, because it may be a secret. */
function kindOf(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return "an array";
  return withArticle(typeof value);
}

function withArticle(noun: string): string {
  const word = noun === "int" ? "integer" : noun === "record" ? "object" : noun;
  return /^[aeiou]/.test(word) ? `an ${word}` : `a ${word}`;
}

function unit(origin: string): string {
  if (origin === "string") return " characters long";
  return origin === "array" ? " entries long" : "";
}
