/** Handles JSON as text, because parsing and writing it again would change it: `1.0` would become `1`. */

/** The same value in pure ASCII without line ends, so that no reader splits it at a wrong place. */
export function asciiLine(json: string): string {
  return json.replaceAll(/[\u007f-\uffff]/g, escaped).replaceAll(/[\r\n]/g, " ");
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BLANK = 0x20;

/** Members of a JSON object by name, each as its original text. Empty if it is not an object. */
export function membersOf(json: string): Map<string, string> {
  const members = new Map<string, string>();
  const parsed: unknown = JSON.parse(json);
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return members;
  // The parse above has proved that the text is well-formed.
  let at = json.indexOf("{") + 1;
  for (;;) {
    const start = json.indexOf('"', at);
    if (start === -1 || json.slice(at, start).includes("}")) return members;
    const end = afterString(json, start);
    const name = JSON.parse(json.slice(start, end)) as string;
    const value = json.indexOf(":", end) + 1;
    at = afterValue(json, value);
    members.set(name, json.slice(value, at).trim());
    if (json.charAt(at) !== ",") return members;
    at++;
  }
}

/** Position behind the closing quote of a string. */
function afterString(json: string, start: number): number {
  let at = json.indexOf('"', start + 1);
  // A quote after an even number of backslashes is not escaped.
  while (at !== -1) {
    let before = at - 1;
    while (json.charCodeAt(before) === BACKSLASH) before--;
    if ((at - before) % 2 === 1) return at + 1;
    at = json.indexOf('"', at + 1);
  }
  return json.length;
}

/** Position of the comma or bracket that ends the value starting at `start`. */
function afterValue(json: string, start: number): number {
  let depth = 0;
  for (let at = start; at < json.length; ) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) {
      at = afterString(json, at);
      continue;
    }
    const char = unit > BLANK ? json.charAt(at) : " ";
    if (depth === 0 && (char === "," || char === "}")) return at;
    if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") depth--;
    at++;
  }
  return json.length;
}
