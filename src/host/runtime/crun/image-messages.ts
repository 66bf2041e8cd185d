/** Files of a memory image, as CRIU writes them: eight bytes, and then messages, each behind its length in four. */
import type { Field } from "./protobuf-fields.ts";

export const MAGIC_BYTES = 8;
export const LENGTH_BYTES = 4;

export function messagesIn(content: Buffer): Buffer[] {
  const messages: Buffer[] = [];
  for (let at = MAGIC_BYTES; at < content.length; ) {
    const from = at + LENGTH_BYTES;
    at = from + content.readUInt32LE(at);
    messages.push(content.subarray(from, at));
  }
  return messages;
}

/** The whole number in the field with this number, if there is one. */
export function numberIn(fields: readonly Field[], wanted: number): number | undefined {
  return fields.find(({ number }) => number === wanted)?.value;
}
