/**
 * Timers that are read like files (timerfd), in a memory image as CRIU writes it. Two kinds of them it would not
 * restore as they were, so what is said of them is put into other words:
 *
 * - One that repeats and has run out, and was not read since: nothing is left of its time, and CRIU takes it for one
 *   that was stopped. Any that repeats faster than a checkpoint is written is found like that. The kernel starts it
 *   again when it is read, so it has to run out again.
 * - One that was set to a point in time: what is left of it is added to the full second of the restore, so that it runs
 *   out up to a second early, and at once if it was stopped. What is left is all that has to be known of it.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { FILES_IMAGE } from "./image-open-files.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

/** A sandbox may have a million files open; nobody else is kept waiting for them. */
const LOOKED_AT_TURN = 1_000;

/** Numbers of the fields in a message about a file, and in what it says of a timer. */
const TIMER = 12;
const SETTING = 6;
const LEFT_SECONDS = 7;
const LEFT_NANOSECONDS = 8;
const EVERY_SECONDS = 9;
const EVERY_NANOSECONDS = 10;

/** The setting of a timer: to a point in time, and without anything else, such as an end when the clock is set. */
const AT = 1;
const AFTER = 0;

/** Before the image has its digests. */
export async function mendTimers(images: string): Promise<void> {
  const path = join(images, FILES_IMAGE);
  const content = await readFile(path);
  let looked = 0;
  let isMended = false;
  for (const message of messagesIn(content)) {
    if (++looked % LOOKED_AT_TURN === 0) await setImmediate();
    const timer = fieldsOf(message).find(({ number }) => number === TIMER)?.bytes;
    if (timer !== undefined && mend(timer)) isMended = true;
  }
  if (isMended) await writeFile(path, content);
}

/** Where it lies. */
function mend(timer: Buffer): boolean {
  const fields = fieldsOf(timer);
  const isZero = (...numbers: number[]) => numbers.every((number) => numberIn(fields, number) === 0);
  const hasRunOut = isZero(LEFT_SECONDS, LEFT_NANOSECONDS) && !isZero(EVERY_SECONDS, EVERY_NANOSECONDS);
  const isSetToTime = numberIn(fields, SETTING) === AT;
  // Both take one byte, before and after.
  const set = (wanted: number, value: number) => {
    const field = fields.find(({ number }) => number === wanted);
    if (field !== undefined) timer[field.to - 1] = value;
  };
  if (hasRunOut) set(LEFT_NANOSECONDS, 1);
  if (isSetToTime) set(SETTING, AFTER);
  return hasRunOut || isSetToTime;
}
