/**
 * What was written to terminals and not read yet, in a memory image as CRIU writes it. CRIU puts it back with one write
 * and waits until all of it is taken, but nobody reads yet. A terminal that was filled piece by piece holds more than
 * it takes in one piece, so that a restore would stand still for ever. What is beyond that is left out.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fieldsOf, messagesIn, withFields, withMessages } from "./protobuf-fields.ts";

export const TERMINALS_IMAGE = "tty-data.img";

/** Number of the field in a message about a terminal. */
const UNREAD = 2;

/**
 * What the kernel sets aside for each direction of a terminal. It takes somewhat more, but at its end of a line it may
 * add to what is written: 9 729 ends of lines fill it.
 */
export const TERMINAL_TAKES_BYTES = 8_192;

/** The content of that file when a terminal would not take all that is in it. */
export function terminalsThatFit(images: string): Buffer | undefined {
  const path = join(images, TERMINALS_IMAGE);
  if (!existsSync(path)) return undefined;
  const content = readFileSync(path);
  const fits = messagesIn(content).every((message) => unread(message) <= TERMINAL_TAKES_BYTES);
  return fits ? undefined : withMessages(content, (message) => withFields(message, UNREAD, beginning));
}

function unread(message: Buffer): number {
  return fieldsOf(message).find(({ number }) => number === UNREAD)?.bytes?.length ?? 0;
}

function beginning(bytes: Buffer): Buffer {
  return bytes.subarray(0, TERMINAL_TAKES_BYTES);
}
