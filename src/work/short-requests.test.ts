import { afterEach, beforeEach, describe, expect, setSystemTime, test } from "bun:test";
import { ShortRequests, StandingBack, shortRequestsBytes } from "./short-requests.ts";

const NOW = 1_763_000_000_000;
let memory: Uint8Array;
let back: StandingBack;
beforeEach(() => {
  memory = new Uint8Array(shortRequestsBytes(2));
  back = new StandingBack(memory);
  setSystemTime(NOW);
});
afterEach(() => {
  setSystemTime();
});

describe("long bodies stand back", () => {
  test("while a request is under way, in whichever process", () => {
    expect(back.isDue(NOW)).toBe(false);
    for (const process of [0, 1]) {
      const over = new ShortRequests(memory, process).begin();
      expect(back.isDue(NOW)).toBe(true);
      over();
      expect(back.isDue(NOW)).toBe(false);
    }
  });

  test("until the last to begin is over, whatever becomes of those before it", () => {
    const requests = new ShortRequests(memory, 0);
    const first = requests.begin();
    setSystemTime(NOW + 1);
    const second = requests.begin();
    first();
    expect(back.isDue(NOW + 1)).toBe(true);
    second();
    expect(back.isDue(NOW + 1)).toBe(false);
  });

  test("a few milliseconds for one that takes long, or whose process has ended", () => {
    new ShortRequests(memory, 0).begin();
    expect(back.isDue(NOW + 7)).toBe(true);
    expect(back.isDue(NOW + 8)).toBe(false);
    expect(back.isDue(NOW + 1000)).toBe(false);
  });

  test("not for a time that was written by a clock that went ahead", () => {
    setSystemTime(NOW + 60_000);
    new ShortRequests(memory, 0).begin();
    expect(back.isDue(NOW)).toBe(false);
  });

  test("as before when nobody asked for an hour", () => {
    const over = new ShortRequests(memory, 0).begin();
    expect(back.isDue(NOW)).toBe(true);
    over();
    const later = NOW + 3_600_000;
    expect(back.isDue(later)).toBe(false);
    setSystemTime(later + 20);
    new ShortRequests(memory, 0).begin();
    expect(back.isDue(later + 20)).toBe(true);
  });

  test("for half of the time, however many there are", () => {
    let backMs = 0;
    for (let ms = 0; ms < 1000; ms++) {
      setSystemTime(NOW + ms);
      new ShortRequests(memory, ms % 2).begin();
      if (back.isDue(NOW + ms)) backMs += 1;
    }
    expect(backMs).toBeGreaterThan(400);
    expect(backMs).toBeLessThan(600);
  });
});
