import { expect, test } from "bun:test";
import { TokenBucket } from "./token-bucket.ts";

const bucket = () => new TokenBucket({ burst: 100, perSecond: 10 }, 0);

test("a burst can be taken at once, and more as tokens refill", () => {
  const b = bucket();
  expect(b.take(60, 0)).toBe(true);
  expect(b.take(40, 0)).toBe(true);
  expect(b.take(1, 0)).toBe(false);
  expect(b.take(10, 999)).toBe(false);
  expect(b.take(10, 1000)).toBe(true);
  expect(b.take(1, 1000)).toBe(false);
});

test("a rejected request takes no tokens", () => {
  const b = bucket();
  expect(b.take(101, 0)).toBe(false);
  expect(b.level(0)).toBe(100);
});

test("the bucket never holds more than the burst", () => {
  const b = bucket();
  b.take(50, 0);
  expect(b.isFull(4_999)).toBe(false);
  expect(b.isFull(5_000)).toBe(true);
  expect(b.level(3_600_000)).toBe(100);
});

test("bytes that already arrived are charged, down to a debt of one burst", () => {
  const b = bucket();
  expect(b.charge(100, 0)).toBe(true);
  expect(b.charge(1, 0)).toBe(false);
  expect(b.level(0)).toBe(-1);
  expect(b.charge(1_000_000, 0)).toBe(false);
  expect(b.level(0)).toBe(-100);
  expect(b.msUntil(50, 0)).toBe(15_000);
  expect(b.msUntil(50, 14_000)).toBe(1_000);
  expect(b.msUntil(50, 60_000)).toBe(0);
});

test("a clock that is set back adds and removes no tokens, and the refill continues", () => {
  const b = bucket();
  b.take(100, 10_000);
  expect(b.level(2_000)).toBe(0);
  expect(b.level(3_000)).toBe(10);
});
