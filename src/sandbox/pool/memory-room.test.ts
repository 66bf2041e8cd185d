import { describe, expect, test } from "bun:test";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { MemoryRoom, READY_MEMORY_EVERY_MS, READY_MEMORY_PART, READY_REGROW_MS } from "./memory-room.ts";

const GIB = 1024 ** 3;

describe("the pool's share of it", () => {
  const clock = new ManualClock(0);
  const roomWith = (read: () => number) =>
    new MemoryRoom(() => ({ totalBytes: 10 * GIB, availableBytes: read() * GIB }), clock);

  test("is a part of the free memory after the reserve, including what the pool uses", () => {
    expect(roomWith(() => 5).bytes(0)).toBe(4 * GIB * READY_MEMORY_PART);
    expect(roomWith(() => 4).bytes(GIB)).toBe(4 * GIB * READY_MEMORY_PART);
    expect(roomWith(() => 0.9).bytes(0)).toBe(0);
  });

  test("decreases at once, and increases after a while", async () => {
    let available = 5;
    const room = roomWith(() => available);
    room.bytes(0);
    available = 3;
    expect(room.bytes(0)).toBe(4 * GIB * READY_MEMORY_PART);
    await clock.advance(READY_MEMORY_EVERY_MS, async () => undefined);
    expect(room.bytes(0)).toBe(2 * GIB * READY_MEMORY_PART);
    available = 9;
    await clock.advance(READY_REGROW_MS - 1, async () => undefined);
    expect(room.bytes(0)).toBe(2 * GIB * READY_MEMORY_PART);
    await clock.advance(1, async () => undefined);
    expect(room.bytes(0)).toBe(8 * GIB * READY_MEMORY_PART);
  });
});
