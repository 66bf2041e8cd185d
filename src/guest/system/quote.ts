/**
 * A client's text inside of a message. However much the client sent, a message repeats no more of it than a reader
 * needs to recognise it. Every message that shows what a client sent goes through here.
 */
import { MESSAGE_MAX_CHARS } from "../limits.ts";

/** Of a text that a client sent, so much is repeated in a message about it. */
export const QUOTED_MAX_CHARS = 100;

/** In quotation marks, with its first characters only and its length when it is long. */
export function quote(text: string, mark: `"` | "'" = '"'): string {
  const escaped = JSON.stringify(firstOf(text, QUOTED_MAX_CHARS)).slice(1, -1);
  const quoted = `${mark}${escaped}${mark}`;
  return text.length <= QUOTED_MAX_CHARS ? quoted : `${quoted}… (${text.length} characters)`;
}

/** For messages that others wrote and that may repeat anything: libraries quote what they cannot read as a whole. */
export function boundedMessage(message: string): string {
  if (message.length <= MESSAGE_MAX_CHARS) return message;
  return `${firstOf(message, MESSAGE_MAX_CHARS)}… (${message.length} characters)`;
}

/** Never the first half alone of a character that takes two places in a string. */
function firstOf(text: string, chars: number): string {
  return text.length <= chars ? text : text.slice(0, chars).replace(/[\ud800-\udbff]$/, "");
}
