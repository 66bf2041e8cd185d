/** Timers in a checkpoint image that CRIU would not restore as they were. */
import { expect, spyOn, test } from "bun:test";
import { readFileSync, statSync, utimesSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { folderOfTest } from "../../../../base/testing/test-folder.ts";
import { image, nested, number } from "../testing/criu-image.ts";
import { correctTimers } from "./image-timers.ts";
import { fieldsOf, messagesIn, numberIn } from "./protobuf-fields.ts";

const images = folderOfTest("timers");

const AFTER = 0;
const AT = 1;
const AT_UNLESS_THE_CLOCK_IS_SET = 3;

interface Timer {
  setting: number;
  left: [seconds: number, nanoseconds: number];
  every: [seconds: number, nanoseconds: number];
}

const other = Buffer.concat([number(1, 1), number(2, 7), nested(3, number(1, 7), number(8, 0))]);

/** As CRIU writes it: with its flags, its owner, its clock and how often it ran out before the rest. */
function file({ setting, left, every }: Timer): Buffer {
  const before = [number(1, 5), number(2, 2), nested(3, number(1, 0)), number(4, 1), number(5, 1), number(6, setting)];
  const times = [...left, ...every].map((value, at) => number(7 + at, value));
  return Buffer.concat([number(1, 17), number(2, 5), nested(12, ...before, ...times)]);
}

async function corrected(timer: Timer): Promise<Timer> {
  image(images, "files.img", [other, file(timer)]);
  await correctTimers(images);
  const [untouched, message] = messagesIn(readFileSync(join(images, "files.img")));
  expect(untouched?.equals(other)).toBe(true);
  const fields = fieldsOf(fieldsOf(message ?? Buffer.alloc(0)).find((field) => field.number === 12)?.bytes ?? other);
  const value = (wanted: number) => numberIn(fields, wanted) ?? Number.NaN;
  const read: Timer = { setting: value(6), left: [value(7), value(8)], every: [value(9), value(10)] };
  expect(message?.equals(file(read))).toBe(true);
  return read;
}

const rows: [what: string, written: Timer, restored: Timer][] = [
  ["that runs", { setting: AFTER, left: [3, 5], every: [0, 0] }, { setting: AFTER, left: [3, 5], every: [0, 0] }],
  ["that is over", { setting: AFTER, left: [0, 0], every: [0, 0] }, { setting: AFTER, left: [0, 0], every: [0, 0] }],
  [
    "that repeats, and has run out",
    { setting: AFTER, left: [0, 0], every: [0, 10_000_000] },
    { setting: AFTER, left: [0, 1], every: [0, 10_000_000] },
  ],
  [
    "that repeats, and runs",
    { setting: AFTER, left: [0, 7], every: [86_400, 0] },
    { setting: AFTER, left: [0, 7], every: [86_400, 0] },
  ],
  [
    "that was set to a time",
    { setting: AT, left: [5, 900_000_000], every: [0, 0] },
    { setting: AFTER, left: [5, 900_000_000], every: [0, 0] },
  ],
  [
    "that was set to a time, and is over",
    { setting: AT, left: [0, 0], every: [0, 0] },
    { setting: AFTER, left: [0, 0], every: [0, 0] },
  ],
  [
    "that was set to a time, repeats, and has run out",
    { setting: AT, left: [0, 0], every: [1, 0] },
    { setting: AFTER, left: [0, 1], every: [1, 0] },
  ],
  [
    "that ends when the clock is set",
    { setting: AT_UNLESS_THE_CLOCK_IS_SET, left: [5, 0], every: [0, 0] },
    { setting: AT_UNLESS_THE_CLOCK_IS_SET, left: [5, 0], every: [0, 0] },
  ],
];

test.each(rows)("a timer %s", async (_what, written, restored) => {
  expect(await corrected(written)).toEqual(restored);
});

test("an image without such timers is not rewritten", async () => {
  image(images, "files.img", [other]);
  const path = join(images, "files.img");
  utimesSync(path, 1, 1);
  await correctTimers(images);
  expect(statSync(path).mtimeMs).toBe(1_000);
});

// Guards against parsing all timers in one turn of the event loop, which takes a while for a million.
test("many timers do not block the event loop", async () => {
  const many = 20_000;
  image(
    images,
    "files.img",
    Array.from({ length: many }, () => other),
  );
  using found = spyOn(Buffer.prototype, "readUInt32LE");
  const correcting = correctTimers(images);
  while (found.mock.calls.length === 0) await setImmediate();
  expect(found.mock.calls.length).toBeLessThan(many);
  await correcting;
});

// Guards against reading the whole file into memory.
test("a timer after more data than fits into memory is found", async () => {
  const path = join(images, "files.img");
  const timer = file({ setting: AT, left: [5, 0], every: [0, 0] });
  const length = (bytes: number) => Buffer.from(new Uint32Array([bytes]).buffer);
  const longBytes = 0xffff_fff0;
  await using written = await open(path, "w+");
  await written.write(Buffer.concat([Buffer.from("magicnum"), length(longBytes)]));
  const at = 12 + longBytes;
  await written.write(Buffer.concat([length(timer.length), timer]), 0, 4 + timer.length, at);
  await correctTimers(images);
  const read = Buffer.alloc(timer.length);
  await written.read(read, 0, read.length, at + 4);
  expect(read.equals(file({ setting: AFTER, left: [5, 0], every: [0, 0] }))).toBe(true);
});

test("every timer is found, wherever a read ends", async () => {
  const timer = (setting: number) => file({ setting, left: [5, 0], every: [0, 0] });
  image(images, "files.img", [other, ...Array.from({ length: 10_000 }, () => timer(AT)), other]);
  await correctTimers(images);
  const [first, ...rest] = messagesIn(readFileSync(join(images, "files.img")));
  const last = rest.pop();
  expect([first, last].map((message) => message?.equals(other))).toEqual([true, true]);
  expect(rest).toHaveLength(10_000);
  expect(rest.every((message) => message.equals(timer(AFTER)))).toBe(true);
});
