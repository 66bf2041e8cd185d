/**
 * Watches the memory that sandboxes can still get. While less than a reserve is available, the ready pool is emptied,
 * and every check sends control an event: control rejects new runs, and pauses idle sandboxes once the pool holds none.
 */
import type { Clock, Timer } from "../base/clock.ts";
import { described, type Log } from "../base/log.ts";
import type { HostEvent } from "../contract/internal/host.ts";
import { MIB } from "../contract/limit.ts";
import type { MemoryLeft } from "../system/cgroup/memory-left.ts";

/** How often memory is read, and how often while it is short or nearly so: below this multiple of the reserve. */
export const MEMORY_CHECK_MS = 1_000;
export const MEMORY_NEAR_CHECK_MS = 200;
const MEMORY_NEAR = 2;
/** Memory is enough again above this multiple of the reserve. */
const MEMORY_ENOUGH_AGAIN = 1.25;

export interface MemoryReserve {
  /** The reserve, in percent of all memory. */
  percent: number;
  /** Other than the memory of this machine; for tests. */
  read?: () => MemoryLeft;
}

interface MemoryWatchParts {
  percent: number;
  read(): MemoryLeft;
  /** Gives up all ready sandboxes, or ends that. Returns whether any is left. */
  suspendPool(isShort: boolean): boolean;
  emit(event: HostEvent): void;
  clock: Clock;
  log: Log;
}

export class MemoryWatch {
  #isShort = false;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(private readonly parts: MemoryWatchParts) {
    this.#check();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #check(): void {
    let delayMs = MEMORY_CHECK_MS;
    try {
      const { totalBytes, availableBytes } = this.parts.read();
      const reserveBytes = Math.floor((totalBytes * this.parts.percent) / 100);
      this.#act(availableBytes, reserveBytes);
      if (this.#isShort || availableBytes < reserveBytes * MEMORY_NEAR) delayMs = MEMORY_NEAR_CHECK_MS;
    } catch (error) {
      const event = "the available memory could not be read";
      this.parts.log.write({ level: "error", event, error: described(error) });
    }
    if (!this.#isClosed) this.#timer = this.parts.clock.after(delayMs, () => this.#check());
  }

  #act(availableBytes: number, reserveBytes: number): void {
    const { suspendPool, emit, log } = this.parts;
    const wasShort = this.#isShort;
    this.#isShort = availableBytes < reserveBytes * (wasShort ? MEMORY_ENOUGH_AGAIN : 1);
    if (!this.#isShort && !wasShort) return;
    if (this.#isShort !== wasShort) {
      const event = this.#isShort ? "the machine is short of memory" : "the machine has enough memory again";
      const availableMB = Math.floor(availableBytes / MIB);
      const reserveMB = Math.floor(reserveBytes / MIB);
      log.write({ level: this.#isShort ? "warn" : "info", event, availableMB, reserveMB });
    }
    // Refused first, so that nothing takes what the pool gives up.
    if (this.#isShort && !wasShort) emit({ kind: "memory", state: "short", availableBytes, reserveBytes });
    const isReadyLeft = suspendPool(this.#isShort);
    if (this.#isShort && !wasShort) return;
    const state = !this.#isShort ? "enough" : isReadyLeft ? "short" : "exhausted";
    emit({ kind: "memory", state, availableBytes, reserveBytes });
  }
}
