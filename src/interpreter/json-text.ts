/** JSON that stays as a kernel wrote it: parsing and writing it again would make `1` of `1.0`. */

/** The same value in pure ASCII without line ends, so that no reader splits it at a wrong place. */
export function asciiLine(json: string): string {
  return json.replaceAll(/[\u007f-\uffff]/g, escaped).replaceAll(/[\r\n]/g, " ");
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** The part of JSON that TypeScript does not know yet. */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, revive: (name: string, value: unknown, context: { source: string }) => unknown): object | null;
  rawJSON(text: string): object;
};

/** Members of the object `name` in a JSON object, each as JSON with its numbers as written. Empty: no object. */
export function membersOf(json: string, name: string): Record<string, string> {
  const whole = parse(json, (_, value, { source }) => (typeof value === "number" ? rawJSON(source) : value));
  const object: unknown = new Map<string, unknown>(Object.entries(whole ?? {})).get(name);
  if (typeof object !== "object" || object === null || Array.isArray(object)) return {};
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, JSON.stringify(value)]));
}
