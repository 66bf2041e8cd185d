/** Reads query parameters as the types of their schema: numbers from digits, arrays from comma-separated text. */
import { z } from "zod";
import { innermost, parseWith } from "./validation.ts";

/** As milliseconds since 1970 this lies beyond any real time, and it stays exact after some arithmetic. */
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
  // An unencoded plus of a time zone reads as a space.
  if (field instanceof z.ZodISODateTime) return text.replace(" ", "+");
  // Text that is not a number stays text, and the schema reports it.
  return field instanceof z.ZodNumber && /^-?\d+$/.test(text) ? integer(text) : text;
}

/**
 * Clients may send any 64-bit number. Beyond FARTHEST all numbers mean the same to the routes, so they are clamped.
 * Numbers of more than 64 bits are not clamped, and no schema accepts them.
 */
function integer(text: string): number {
  const number = Number(text);
  const isInt64 = text.length <= 20 && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
  return isInt64 ? Math.max(-FARTHEST, Math.min(FARTHEST, number)) : number;
}
