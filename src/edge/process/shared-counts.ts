/**
 * Counts that several processes keep together, in memory that all of them have: for each thing that is counted a word
 * of each process. A process changes only its own words, and the sum is what counts. So when a process dies, what it
 * had counted is known, and is taken away.
 */
import { EDGE_COUNTS_MAX } from "../limits.ts";

export function countsBytes(processes: number): number {
  return EDGE_COUNTS_MAX * processes * Int32Array.BYTES_PER_ELEMENT;
}

export class SharedCounts {
  readonly #words: Int32Array;
  readonly #processes: number;

  constructor(memory: Uint8Array, processes: number) {
    this.#words = new Int32Array(memory.buffer, memory.byteOffset, EDGE_COUNTS_MAX * processes);
    this.#processes = processes;
  }

  /** False: there are as many as there may be. Of two that come at once for the last place, both may hear that. */
  add(number: number, process: number, most: number): boolean {
    Atomics.add(this.#words, number * this.#processes + process, 1);
    if (this.sum(number) <= most) return true;
    this.remove(number, process);
    return false;
  }

  remove(number: number, process: number): void {
    Atomics.sub(this.#words, number * this.#processes + process, 1);
  }

  sum(number: number): number {
    const first = number * this.#processes;
    let sum = 0;
    for (let at = first; at < first + this.#processes; at++) sum += Atomics.load(this.#words, at);
    return sum;
  }

  /** The process is gone, and carries nothing. */
  clear(process: number): void {
    for (let at = process; at < this.#words.length; at += this.#processes) Atomics.store(this.#words, at, 0);
  }
}
