/** Headers that describe a downloaded file: its media type and name. */
import { extname } from "node:path";

const SNIFFED_BYTES = 512;

export function contentDisposition(name: string): string {
  if (/^[\x20-\x7e]*$/.test(name)) return `inline; filename="${name.replace(/["\\]/g, "\\$&")}"`;
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  return `inline; filename*=utf-8''${encoded}`;
}

/** The media type by extension; undefined if the extension is unknown. */
export function typeByName(path: string): string | undefined {
  if (extname(path) === "") return undefined;
  const type = Bun.file(path).type;
  return type === "" || type === "application/octet-stream" ? undefined : type;
}

/** Guesses from the first bytes whether a file is text. */
export async function sniffType(path: string): Promise<string> {
  const head = await Bun.file(path).slice(0, SNIFFED_BYTES).bytes();
  return isText(head) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

function isText(head: Uint8Array): boolean {
  const allowedControls = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
  return head.every((byte) => byte >= 0x20 || allowedControls.has(byte));
}
