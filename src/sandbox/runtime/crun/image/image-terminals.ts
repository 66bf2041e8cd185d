/**
 * Unread terminal data in a CRIU image. CRIU restores it with one write and waits until all of it is accepted, but no
 * process reads yet. A terminal that was filled piece by piece holds more than it accepts in one write, so the restore
 * would hang forever. Data beyond that size is dropped.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fieldsOf, messagesIn, withFields, withMessages } from "./protobuf-fields.ts";

export const TERMINALS_IMAGE = "tty-data.img";

/** Field number of the unread data in a terminal's entry. */
const UNREAD = 2;

/** The kernel accepts somewhat more in one write, but output processing may expand line ends. */
export const TERMINAL_WRITE_MAX_BYTES = 8_192;

/** The reduced content of the file, if a terminal would not accept all its data. */
export function terminalsThatFit(images: string): Buffer | undefined {
  const path = join(images, TERMINALS_IMAGE);
  if (!existsSync(path)) return undefined;
  const content = readFileSync(path);
  const fits = messagesIn(content).every((message) => unread(message) <= TERMINAL_WRITE_MAX_BYTES);
  return fits ? undefined : withMessages(content, (message) => withFields(message, UNREAD, beginning));
}

function unread(message: Buffer): number {
  return fieldsOf(message).find(({ number }) => number === UNREAD)?.bytes?.length ?? 0;
}

function beginning(bytes: Buffer): Buffer {
  return bytes.subarray(0, TERMINAL_WRITE_MAX_BYTES);
}
