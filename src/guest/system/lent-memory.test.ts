/** Memory that is used again: by one at a time, of one size, not much of it, and not for long. */
import { afterAll, afterEach, beforeAll, expect, jest, test } from "bun:test";
import { LENT_MEMORY_BYTES, LENT_MEMORY_KEPT_MAX, LENT_MEMORY_KEPT_MS } from "../limits.ts";
import { giveBack, lendMemory } from "./lent-memory.ts";

beforeAll(() => void jest.useFakeTimers());
afterAll(() => void jest.useRealTimers());
afterEach(() => void jest.advanceTimersByTime(LENT_MEMORY_KEPT_MS));

test("what was given back is lent again, also for less, and never to two at once", () => {
  const first = lendMemory(LENT_MEMORY_BYTES);
  const second = lendMemory(LENT_MEMORY_BYTES);
  expect(second.buffer).not.toBe(first.buffer);
  // A part tells which memory is meant.
  giveBack(first.subarray(0, 10));
  const third = lendMemory(100_000);
  expect(third.buffer).toBe(first.buffer);
  expect(third.length).toBeGreaterThanOrEqual(100_000);
  expect(lendMemory(100_000).buffer).not.toBe(first.buffer);
});

test("shorter memory, and what is beyond a few, is freed", () => {
  const short = lendMemory(LENT_MEMORY_BYTES - 1);
  giveBack(short);
  expect(short.length).toBe(0);
  const lent = Array.from({ length: LENT_MEMORY_KEPT_MAX + 1 }, () => lendMemory(LENT_MEMORY_BYTES));
  for (const memory of lent) giveBack(memory);
  expect(lent.map(({ length }) => length)).toEqual([...Array(LENT_MEMORY_KEPT_MAX).fill(LENT_MEMORY_BYTES), 0]);
});

test("kept memory is freed a while after the last was given back", () => {
  const [one, other] = [lendMemory(LENT_MEMORY_BYTES), lendMemory(LENT_MEMORY_BYTES)];
  giveBack(one);
  jest.advanceTimersByTime(LENT_MEMORY_KEPT_MS - 1);
  giveBack(other);
  jest.advanceTimersByTime(LENT_MEMORY_KEPT_MS - 1);
  expect([one.length, other.length]).toEqual([LENT_MEMORY_BYTES, LENT_MEMORY_BYTES]);
  jest.advanceTimersByTime(1);
  expect([one.length, other.length]).toEqual([0, 0]);
});
