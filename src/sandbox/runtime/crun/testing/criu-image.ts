/** Writes image files in CRIU's format. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeVarint } from "../image/protobuf-fields.ts";

/** An integer as a field of a message. */
export const number = (field: number, value: number) => Buffer.concat([encodeVarint(field * 8), encodeVarint(value)]);

/** Fields of a nested message, or the bytes of a string, as one field. */
export const nested = (field: number, ...content: Buffer[]) => {
  const bytes = Buffer.concat(content);
  return Buffer.concat([encodeVarint(field * 8 + 2), encodeVarint(bytes.length), bytes]);
};

export function image(folder: string, name: string, messages: Buffer[]): void {
  const parts = messages.flatMap((message) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(message.length);
    return [length, message];
  });
  writeFileSync(join(folder, name), Buffer.concat([Buffer.from("magicnum"), ...parts]));
}
