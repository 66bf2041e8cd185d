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
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { FILES_IMAGE } from "./image-open-files.ts";
import { fieldsOf, LENGTH_BYTES, MAGIC_BYTES, numberIn } from "./protobuf-fields.ts";

/**
 * So much is looked at in one turn: a sandbox may have a million files open, with long names. What is said of a timer
 * takes a few dozen bytes.
 */
const WINDOW_BYTES = 64 * 1024;

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
  await using file = await open(join(images, FILES_IMAGE), "r+");
  const window = Buffer.alloc(WINDOW_BYTES);
  for (let at = MAGIC_BYTES; ; ) {
    const { bytesRead } = await file.read(window, 0, window.length, at);
    if (bytesRead < LENGTH_BYTES) return;
    const { isMended, next } = mendAll(window.subarray(0, bytesRead));
    if (isMended) await file.write(window, 0, next, at);
    at += next;
    // Mostly that was all.
    if (next === bytesRead && bytesRead < window.length) return;
    await setImmediate();
  }
}

/** In all messages that are whole here. `next`: where the first begins that is not; one without an end is left out. */
function mendAll(messages: Buffer): { isMended: boolean; next: number } {
  let isMended = false;
  let next = 0;
  while (next + LENGTH_BYTES <= messages.length) {
    const from = next + LENGTH_BYTES;
    const to = from + messages.readUInt32LE(next);
    if (to > messages.length) return { isMended, next: next === 0 ? to : next };
    const timer = fieldsOf(messages.subarray(from, to)).find(({ number }) => number === TIMER)?.bytes;
    if (timer !== undefined && mend(timer)) isMended = true;
    next = to;
  }
  return { isMended, next };
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
