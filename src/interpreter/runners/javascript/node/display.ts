/** Converts values to results: by their display methods, of Deno's kernel or IJavascript, or as text. */
import { Buffer } from "node:buffer";
import { inspect } from "node:util";
import { say } from "./messages.ts";

const DISPLAY = Symbol.for("Jupyter.display");

const METHODS = {
  _toHtml: "text/html",
  _toSvg: "image/svg+xml",
  _toPng: "image/png",
  _toJpeg: "image/jpeg",
} as const;

export async function showResult(value: unknown): Promise<void> {
  if (value === undefined) return;
  say({ kind: "result", isMain: true, bundle: jsonOf(await bundleOf(value)) });
}

/** `$$.html("<b>…</b>")` and the like display at once, as in IJavascript. */
export const displays = {
  text: (text: string) => display({ "text/plain": text }),
  html: (html: string) => display({ "text/html": html }),
  svg: (svg: string) => display({ "image/svg+xml": svg }),
  png: (png: string | Uint8Array) => display({ "image/png": png }),
  jpeg: (jpeg: string | Uint8Array) => display({ "image/jpeg": jpeg }),
  mime: (bundle: Record<string, unknown>) => display(bundle),
};

function display(bundle: Record<string, unknown>): void {
  say({ kind: "result", isMain: false, bundle: jsonOf(bundle) });
}

async function bundleOf(value: unknown): Promise<Record<string, unknown>> {
  const own = await ownBundle(value);
  return own ?? { "text/plain": inspect(value, { maxStringLength: null }) };
}

async function ownBundle(value: unknown): Promise<Record<string, unknown> | undefined> {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  const object = value as Record<string | symbol, unknown>;
  for (const name of [DISPLAY, "_toMime"]) {
    const make = object[name];
    if (typeof make !== "function") continue;
    const bundle: unknown = await make.call(value);
    if (typeof bundle === "object" && bundle !== null) return bundle as Record<string, unknown>;
  }
  const bundle: Record<string, unknown> = {};
  for (const [name, type] of Object.entries(METHODS)) {
    const make = object[name];
    if (typeof make === "function") bundle[type] = await make.call(value);
  }
  return Object.keys(bundle).length === 0 ? undefined : bundle;
}

/** Encodes each value as JSON; bytes as base64. */
function jsonOf(bundle: Record<string, unknown>): Record<string, string> {
  const json: Record<string, string> = {};
  for (const [type, value] of Object.entries(bundle)) {
    const plain = value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
    const text = JSON.stringify(plain);
    if (text !== undefined) json[type] = text;
  }
  return json;
}
