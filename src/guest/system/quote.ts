/** Quotes a client's text in messages, bounded. Every message that repeats client input uses this file. */
import { MESSAGE_MAX_CHARS } from "../limits.ts";

export const QUOTED_MAX_CHARS = 100;

/** Quotes the text; a long one is cut and followed by its length. */
export function quote(text: string, mark: `"` | "'" = '"'): string {
  const escaped = JSON.stringify(firstOf(text, QUOTED_MAX_CHARS)).slice(1, -1);
  const quoted = `${mark}${escaped}${mark}`;
  return text.length <= QUOTED_MAX_CHARS ? quoted : `${quoted}… (${text.length} characters)`;
}

/** Bounds messages from libraries, which may quote unreadable input as a whole. */
export function boundedMessage(message: string): string {
  if (message.length <= MESSAGE_MAX_CHARS) return message;
  return `${firstOf(message, MESSAGE_MAX_CHARS)}… (${message.length} characters)`;
}

/** Never splits a surrogate pair. */
function firstOf(text: string, chars: number): string {
  return text.length <= chars ? text : text.slice(0, chars).replace(/[\ud800-\udbff]$/, "");
}
