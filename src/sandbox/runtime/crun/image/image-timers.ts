/**
 * Timer files (timerfd) in a CRIU image. CRIU would restore two kinds of them wrongly, so their entries are rewritten:
 *
 * - An expired repeating timer that was not read since. Its remaining time is zero, so CRIU takes it for a stopped one.
 *   Any timer that repeats faster than a checkpoint is written is found in this state. The kernel restarts it when it
 *   is read, so it has to expire again.
 * - A timer set to an absolute time. CRIU adds the remaining time to the full second of the restore, so it expires
 *   up to a second early, and at once if it was stopped. The remaining time alone is enough to restore it.
 */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { FILES_IMAGE } from "./image-open-files.ts";
import { fieldsOf, LENGTH_BYTES, MAGIC_BYTES, numberIn } from "./protobuf-fields.ts";

/** Bytes to process before yielding: a sandbox may have a million files open, with long names. */
const WINDOW_BYTES = 64 * 1024;

/** Field numbers in a file entry and in a timer's entry. */
const TIMER = 12;
const SETTING = 6;
const LEFT_SECONDS = 7;
const LEFT_NANOSECONDS = 8;
const EVERY_SECONDS = 9;
const EVERY_NANOSECONDS = 10;

/** The timer's flags: absolute time alone, without TFD_TIMER_CANCEL_ON_SET; and relative time. */
const AT = 1;
const AFTER = 0;

/** Call this before the image has its digests. */
export async function correctTimers(images: string): Promise<void> {
  await using file = await open(join(images, FILES_IMAGE), "r+");
  const window = Buffer.alloc(WINDOW_BYTES);
  for (let at = MAGIC_BYTES; ; ) {
    const { bytesRead } = await file.read(window, 0, window.length, at);
    if (bytesRead < LENGTH_BYTES) return;
    const { isCorrected, next } = correctAll(window.subarray(0, bytesRead));
    if (isCorrected) await file.write(window, 0, next, at);
    at += next;
    // Usually the whole file fits in one window.
    if (next === bytesRead && bytesRead < window.length) return;
    await setImmediate();
  }
}

/** `next` is the offset of the first incomplete message; one longer than the buffer is skipped. */
function correctAll(messages: Buffer): { isCorrected: boolean; next: number } {
  let isCorrected = false;
  let next = 0;
  while (next + LENGTH_BYTES <= messages.length) {
    const from = next + LENGTH_BYTES;
    const to = from + messages.readUInt32LE(next);
    if (to > messages.length) return { isCorrected, next: next === 0 ? to : next };
    const timer = fieldsOf(messages.subarray(from, to)).find(({ number }) => number === TIMER)?.bytes;
    if (timer !== undefined && correct(timer)) isCorrected = true;
    next = to;
  }
  return { isCorrected, next };
}

/** Changes the entry in place. */
function correct(timer: Buffer): boolean {
  const fields = fieldsOf(timer);
  const isZero = (...numbers: number[]) => numbers.every((number) => numberIn(fields, number) === 0);
  const hasRunOut = isZero(LEFT_SECONDS, LEFT_NANOSECONDS) && !isZero(EVERY_SECONDS, EVERY_NANOSECONDS);
  const isSetToTime = numberIn(fields, SETTING) === AT;
  // The old and the new value both take one byte.
  const set = (wanted: number, value: number) => {
    const field = fields.find(({ number }) => number === wanted);
    if (field !== undefined) timer[field.to - 1] = value;
  };
  if (hasRunOut) set(LEFT_NANOSECONDS, 1);
  if (isSetToTime) set(SETTING, AFTER);
  return hasRunOut || isSetToTime;
}
