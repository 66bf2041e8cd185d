/**
 * How much memory the ready pool may use: a part of what is free on the machine and below every cgroup limit of
 * sandboxes, after a reserve. The value shrinks at once and grows only after a delay, so that the pool starts no
 * sandbox that it would have to discard a moment later.
 */
import type { Clock } from "../../base/clock.ts";
import type { MemoryLeft } from "../../system/cgroup/memory-left.ts";

/**
 * The part of free memory that the ready pool may use, after the reserve. The reserve is READY_RESERVE_PART of all
 * memory, and at least READY_RESERVE_MIN_BYTES. Growth counts only after READY_REGROW_MS.
 */
export const READY_MEMORY_PART = 0.25;
/** Free memory is read at most this often. */
export const READY_MEMORY_EVERY_MS = 100;
const READY_RESERVE_PART = 0.1;
const READY_RESERVE_MIN_BYTES = 512 * 1024 ** 2;
export const READY_REGROW_MS = 10_000;

export class MemoryRoom {
  #left: MemoryLeft | undefined;
  #readAt = 0;
  #bytes = 0;
  /** When the value was smallest. */
  #leastAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly read: () => MemoryLeft,
    private readonly clock: Pick<Clock, "now">,
  ) {}

  /** `heldBytes` is the memory of sandboxes already in the pool. */
  bytes(heldBytes: number): number {
    const now = this.clock.now();
    // Every create and every start calls this, and reading the files takes longer than most of their other work here.
    if (this.#left === undefined || Math.abs(now - this.#readAt) >= READY_MEMORY_EVERY_MS) {
      this.#left = this.read();
      this.#readAt = now;
    }
    const { totalBytes, availableBytes } = this.#left;
    const reserve = Math.max(READY_RESERVE_MIN_BYTES, totalBytes * READY_RESERVE_PART);
    const bytes = Math.max(0, availableBytes + heldBytes - reserve) * READY_MEMORY_PART;
    if (bytes <= this.#bytes || Math.abs(now - this.#leastAt) >= READY_REGROW_MS) {
      this.#bytes = bytes;
      this.#leastAt = now;
    }
    return this.#bytes;
  }
}
