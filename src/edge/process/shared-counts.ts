/**
 * Counters in memory shared by several processes: one word per process for each counter. A process changes only its own
 * words, and the sum counts. So when a process dies, its share is known and can be removed.
 */
import { EDGE_COUNTS_MAX } from "../limits.ts";

export function countsBytes(processes: number): number {
  return EDGE_COUNTS_MAX * processes * Int32Array.BYTES_PER_ELEMENT;
}

export class SharedCounts {
  readonly #words: Int32Array;

  constructor(
    memory: Uint8Array,
    private readonly processes: number,
  ) {
    this.#words = new Int32Array(memory.buffer, memory.byteOffset, EDGE_COUNTS_MAX * processes);
  }

  /** False: the maximum is reached. Two concurrent calls for the last place may both fail. */
  add(number: number, process: number, max: number): boolean {
    Atomics.add(this.#words, number * this.processes + process, 1);
    if (this.sum(number) <= max) return true;
    this.remove(number, process);
    return false;
  }

  remove(number: number, process: number): void {
    Atomics.sub(this.#words, number * this.processes + process, 1);
  }

  sum(number: number): number {
    const first = number * this.processes;
    let sum = 0;
    for (let at = first; at < first + this.processes; at++) sum += Atomics.load(this.#words, at);
    return sum;
  }

  /** Call it when the process is gone. */
  clear(process: number): void {
    for (let at = process; at < this.#words.length; at += this.processes) Atomics.store(this.#words, at, 0);
  }
}
