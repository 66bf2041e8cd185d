import { expect, test } from "bun:test";
import { KsmdShare } from "./ksmd-share.ts";

const PAGES_PER_STEP = 1000;

test("ksmd sleeps as long after a step as its share of a processor demands", () => {
  for (const maxPercent of [1, 10, 40, 60]) {
    const sleepMs = sleepAfterSteps(maxPercent, { steps: 10, stepMs: 30 });
    expect(30 / (30 + sleepMs)).toBeCloseTo(maxPercent / 100, 2);
  }
});

test("ksmd sleeps at least 2 ms, and at most five seconds", () => {
  expect(sleepAfterSteps(100, { steps: 10, stepMs: 30 })).toBe(2);
  expect(sleepAfterSteps(40, { steps: 100, stepMs: 1 })).toBe(2);
  expect(sleepAfterSteps(1, { steps: 2, stepMs: 400 })).toBe(5000);
});

test("the sleep stays until ksmd has ended a step", () => {
  const share = new KsmdShare(40);
  expect(share.sleepMs({ cpuMs: 0, pages: 0, pagesPerStep: PAGES_PER_STEP })).toBeUndefined();
  expect(share.sleepMs({ cpuMs: 100, pages: 0, pagesPerStep: PAGES_PER_STEP })).toBeUndefined();
  expect(share.sleepMs({ cpuMs: 200, pages: 1000, pagesPerStep: PAGES_PER_STEP })).toBe(300);
});

function sleepAfterSteps(maxPercent: number, { steps, stepMs }: { steps: number; stepMs: number }): number {
  const share = new KsmdShare(maxPercent);
  share.sleepMs({ cpuMs: 1000, pages: 5000, pagesPerStep: PAGES_PER_STEP });
  const now = { cpuMs: 1000 + steps * stepMs, pages: 5000 + steps * PAGES_PER_STEP, pagesPerStep: PAGES_PER_STEP };
  return share.sleepMs(now) ?? 0;
}
