/**
 * Objects with arbitrary keys and values of one schema. As with string maps, every key is ordinary, even `__proto__`,
 * which the schema library's records would drop. The value is passed on as parsed and never copied.
 */
import { z } from "zod";

/** The problem of the whole map, or of one name, in words that follow it. */
interface NameProblem {
  name?: string;
  message: string;
}

/** After a problem of the whole map, no value is examined. */
export function objectMap<T>(
  value: z.ZodType<T>,
  judge: (names: readonly string[]) => Iterable<NameProblem>,
): z.ZodType<Record<string, T>> {
  const { $schema: _, ...additionalProperties } = z.toJSONSchema(value, { io: "input" });
  const schema = z
    .unknown()
    .superRefine((given, context) => {
      if (typeof given !== "object" || given === null || Array.isArray(given)) {
        context.addIssue({ code: "invalid_type", expected: "object", input: given });
        return;
      }
      for (const { name, message } of judge(Object.keys(given))) {
        context.addIssue({ code: "custom", message, path: name === undefined ? [] : [name] });
        if (name === undefined) return;
      }
      for (const [name, entry] of Object.entries(given)) {
        for (const issue of value.safeParse(entry).error?.issues ?? []) {
          context.addIssue({ ...issue, path: [name, ...issue.path] } as Parameters<typeof context.addIssue>[0]);
        }
      }
    })
    .meta({ type: "object", additionalProperties });
  return schema as z.ZodType as z.ZodType<Record<string, T>>;
}
