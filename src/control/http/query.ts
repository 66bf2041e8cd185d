/** Query parameters as the types that their schema names: numbers from digits, arrays from comma-separated text. */
import { z } from "zod";
import { innermost, parseWith } from "./validation.ts";

/** In milliseconds since 1970 still far beyond any time there is, and exact also after some arithmetic. */
const FARTHEST = 999_999_999_999_999;
const INT64_MAX = 2n ** 63n - 1n;

export function readQuery<S extends z.ZodObject>(schema: S, search: URLSearchParams): z.output<S> {
  const values: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(schema.shape)) {
    const written = search.getAll(name);
    if (written.length > 0) values[name] = convert(written, innermost(field));
  }
  const written = (name: string) => search.get(name) ?? undefined;
  return parseWith(schema, values, { whole: "the query", written, farthest: INT64_MAX });
}

function convert(written: string[], field: z.core.$ZodType): unknown {
  if (field instanceof z.ZodArray) {
    const entries = written.flatMap((text) => text.split(",")).filter((text) => text !== "");
    return entries.length === 0 ? undefined : entries;
  }
  const [text = ""] = written;
  // The plus of a time zone reads as a space when it was not encoded.
  if (field instanceof z.ZodISODateTime) return text.replace(" ", "+");
  // What is not a number stays text, and the schema says so.
  return field instanceof z.ZodNumber && /^-?\d+$/.test(text) ? integer(text) : text;
}

/**
 * Clients may send any number of 64 bits. What is farther away than this means the same to all who ask for numbers
 * here. What has more than 64 bits stays as far away as it is, which no schema takes.
 */
function integer(text: string): number {
  const number = Number(text);
  const isInt64 = text.length <= 20 && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
  return isInt64 ? Math.max(-FARTHEST, Math.min(FARTHEST, number)) : number;
}
