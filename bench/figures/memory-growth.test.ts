/** What counts as gathering memory: a foot that rises, not a saw-tooth. */
import { expect, test } from "bun:test";
import { growth } from "./memory-growth.ts";

const MIB = 1024 ** 2;
const SAMPLES = 240;
/**
 * A minute of a process that holds `base`, makes garbage up to `tooth` every `period` samples, and keeps `leak` by the
 * end.
 */
const minute = (base: number, tooth: number, period: number, leak: number) =>
  Array.from({ length: SAMPLES }, (_, at) => {
    const garbage = (tooth * ((at + 17) % period)) / period;
    return (base + garbage + (leak * at) / SAMPLES) * MIB;
  });

test.each([
  ["a level line", minute(64, 0, 60, 0), false],
  ["a saw-tooth", minute(64, 16, 60, 0), false],
  ["a saw-tooth that begins at its foot and ends at its peak", minute(64, 16, 77, 0), false],
  ["a process that gives memory back", minute(64, 16, 60, -8), false],
  ["a saw-tooth that is too high", minute(64, 48, 60, 0), true],
  ["a leak without garbage", minute(64, 0, 60, 12), true],
  ["a leak below a saw-tooth", minute(64, 16, 60, 16), true],
])("%s", (_name, samples, tooMuch) => {
  expect(growth("guest", samples).tooMuch).toBe(tooMuch);
});
