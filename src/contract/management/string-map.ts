/**
 * Objects with arbitrary keys and string values. Every key is ordinary, even `__proto__`, which the schema library's
 * records would drop. The value is passed on as parsed and never copied, so no key meets a setter.
 */
import { z } from "zod";

type StringMap = Record<string, string>;

/** The problem of the map, or of one entry, in words that follow its name. */
interface StringMapProblem {
  key?: string;
  message: string;
}

/** `judge` only sees maps of strings. */
export function stringMap(judge: (map: StringMap) => Iterable<StringMapProblem> = () => []): z.ZodType<StringMap> {
  const schema = z
    .unknown()
    .superRefine((value, context) => {
      if (!isObject(value)) {
        context.addIssue({ code: "invalid_type", expected: "object", input: value });
        return;
      }
      let isStrings = true;
      for (const [key, entry] of Object.entries(value)) {
        if (typeof entry === "string") continue;
        isStrings = false;
        context.addIssue({ code: "invalid_type", expected: "string", input: entry, path: [key] });
      }
      if (!isStrings) return;
      for (const { key, message } of judge(value as StringMap)) {
        context.addIssue({ code: "custom", message, input: value, path: key === undefined ? [] : [key] });
      }
    })
    .meta({ type: "object", additionalProperties: { type: "string" } });
  return schema as z.ZodType as z.ZodType<StringMap>;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
