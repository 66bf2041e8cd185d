/**
 * Removes the mark for page merging (MADV_MERGEABLE) from the mappings in a CRIU image. CRIU would restore the mark
 * also in a sandbox that does not share memory. A sandbox that does gets it from the marked CRIU that restores it.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ADVICE, MAPPING, MAPPINGS } from "./image-wiping.ts";
import { fieldsOf, messagesIn } from "./protobuf-fields.ts";

/** Bit 12 of the advice: in the second byte of the number, which holds bits 7 to 13. */
const MERGEABLE = 1 << 5;

/** Call this before the image has its digests. */
export async function dropMergeMarks(images: string): Promise<void> {
  for (const name of await readdir(images)) {
    if (!MAPPINGS.test(name)) continue;
    const path = join(images, name);
    const content = await readFile(path);
    if (dropFrom(content)) await writeFile(path, content, { flag: "r+" });
  }
}

/** Changes the content in place: a number may keep leading zeros. */
function dropFrom(content: Buffer): boolean {
  let isChanged = false;
  for (const { number, bytes } of messagesIn(content).flatMap(fieldsOf)) {
    if (number !== MAPPING || bytes === undefined) continue;
    const advice = fieldsOf(bytes).find((field) => field.number === ADVICE);
    if (advice === undefined || Math.floor((advice.value ?? 0) / 2 ** 12) % 2 === 0) continue;
    // The field's key takes one byte.
    const second = advice.from + 2;
    bytes[second] = (bytes[second] as number) & ~MERGEABLE;
    isChanged = true;
  }
  return isChanged;
}
