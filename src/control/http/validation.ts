/**
 * Turns validation errors into one sentence: which field, what it must be, what it was. Text values of a body are not
 * repeated, because they may be secrets, unless the field takes only a few words. Values of a query are repeated: they
 * are short, and part of the client's own URL.
 */
import { z } from "zod";
import { Fault } from "../../contract/fault.ts";
import { quoted } from "../../contract/quoted-text.ts";

const VALIDATION_PROBLEMS_SHOWN = 5;
/** A field's name may be the client's own, and long. */
const FIELD_SHOWN_MAX_CHARS = 128;

/** Where the parsed value came from. */
interface Source {
  /** The name of the whole. */
  whole: string;
  /** A number as the client wrote it, if it was read from text. */
  written?(name: string): string | undefined;
  /** The largest number read from text where the schema sets no bound. */
  farthest?: bigint;
}

export const BODY: Source = { whole: "the body" };

export function parseWith<S extends z.ZodType>(schema: S, input: unknown, source: Source): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const problems = new Map<string, z.core.$ZodIssue>();
  for (const issue of result.error.issues) {
    // Only the first problem of a value counts: the others follow from its wrong type or size.
    const where = JSON.stringify(issue.path.map(String));
    if (!problems.has(where)) problems.set(where, issue);
  }
  const first = [...problems.values()].slice(0, VALIDATION_PROBLEMS_SHOWN);
  const shown = first.map((issue) => new Problem(schema, issue, input, source).text);
  const more = problems.size - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  throw new Fault(400, `validation error: ${shown.join("; ")}`);
}

class Problem {
  readonly #field: z.core.$ZodType | undefined;
  readonly #value: unknown;

  constructor(
    schema: z.ZodType,
    private readonly issue: z.core.$ZodIssue,
    input: unknown,
    private readonly source: Source,
  ) {
    this.#field = fieldAt(schema, issue.path);
    this.#value = valueAt(input, issue.path);
  }

  get text(): string {
    return `${this.#name} ${this.#problem}`;
  }

  get #name(): string {
    const { path } = this.issue;
    if (path.length === 0) return this.source.whole;
    // Entries of a list in a query have no numbers that the client would recognise.
    const shown = this.#isQuery ? path.slice(0, 1) : path;
    return shown.map(String).join(".").slice(0, FIELD_SHOWN_MAX_CHARS);
  }

  get #problem(): string {
    const issue = this.issue;
    const { farthest } = this.source;
    if (farthest !== undefined && this.#field instanceof z.ZodNumber) {
      return `must be an integer from ${range(this.#field, farthest)}, got ${this.#got}`;
    }
    switch (issue.code) {
      case "invalid_type":
        if (typeof this.#value === "number" && !Number.isFinite(this.#value)) return this.#beyond(this.#value > 0);
        return `must be ${this.#noun(issue.expected)}, got ${this.#got}`;
      case "too_small":
        return typeof this.#value === "number" ? this.#beyond(false) : sized("least", issue.minimum, this.#value);
      case "too_big":
        return typeof this.#value === "number" ? this.#beyond(true) : sized("most", issue.maximum, this.#value);
      case "invalid_value": {
        const words = issue.values.map((value) => JSON.stringify(value)).join(", ");
        return `must be one of ${words}, got ${typeof this.#value === "string" ? quoted(this.#value) : this.#got}`;
      }
      case "invalid_format":
        return `${formatOf(issue)}${this.#isQuery ? `, got ${this.#got}` : ""}`;
      case "custom":
        return issue.message;
      default:
        return "is not valid; see /openapi.json for what it takes";
    }
  }

  /** Shows the field's bound. The library names its own for numbers far beyond it. */
  #beyond(isTooBig: boolean): string {
    const number = this.#field instanceof z.ZodNumber ? this.#field : undefined;
    const bound = isTooBig ? `at most ${number?.maxValue}` : `at least ${number?.minValue}`;
    return `must be ${bound}, got ${this.#got}`;
  }

  #noun(expected: string): string {
    if (expected === "int" || (this.#field instanceof z.ZodNumber && this.#field.isInt)) return "an integer";
    if (expected === "array" && this.#isQuery) return "a comma-separated list";
    return withArticle(expected === "record" ? "object" : expected);
  }

  /** Numbers are shown, because limits are about them. */
  get #got(): string {
    const value = this.#value;
    if (value === undefined) return "nothing";
    if (value === null) return "null";
    if (typeof value === "number") return quoted(this.source.written?.(this.#name) ?? String(value)).slice(1, -1);
    if (typeof value === "string" && this.#isQuery) return quoted(value);
    return Array.isArray(value) ? "an array" : withArticle(typeof value);
  }

  get #isQuery(): boolean {
    return this.source.written !== undefined;
  }
}

/** The schema of the field without optional wrappers; undefined inside objects with arbitrary keys. */
function fieldAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): z.core.$ZodType | undefined {
  let field: z.core.$ZodType | undefined = schema;
  for (const key of path) {
    field = innermost(field);
    if (field instanceof z.ZodObject) field = field.shape[String(key)];
    else if (field instanceof z.ZodArray) field = field.element;
    else return undefined;
    if (field === undefined) return undefined;
  }
  return innermost(field);
}

export function innermost(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodOptional || field instanceof z.ZodDefault || field instanceof z.ZodNullable
    ? innermost(field.unwrap())
    : field;
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined),
    input,
  );
}

function formatOf(issue: z.core.$ZodIssueInvalidStringFormat): string {
  // The schema describes a pattern in words.
  if (issue.format === "regex") return issue.message;
  return issue.format === "datetime" ? "must be a time such as 2027-01-15T08:00:00Z" : `must be a ${issue.format}`;
}

function range({ minValue, maxValue }: z.ZodNumber, farthest: bigint): string {
  const isOwn = maxValue !== null && maxValue < Number.MAX_SAFE_INTEGER;
  return `${minValue ?? -farthest} to ${isOwn ? maxValue : farthest}`;
}

function sized(side: "least" | "most", bound: number | bigint, value: unknown): string {
  const isText = typeof value === "string";
  const size = isText || Array.isArray(value) ? value.length : Object.keys(value ?? {}).length;
  const unit = isText ? (bound === 1 ? "character" : "characters") : bound === 1 ? "entry" : "entries";
  return `must have at ${side} ${bound} ${unit}, got ${size}`;
}

function withArticle(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
}
