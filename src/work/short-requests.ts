/**
 * Short requests go before long bodies. While one is under way, in whichever process, those who move long bodies stand
 * back for it: a create takes a few milliseconds, and half of them would be waiting for a processor. What both know of
 * each other is in memory that all processes have, a word for each, with the time until which its requests go first.
 */

/** A request goes first for so long, and is like any other from then on. */
const GOES_FIRST_MS = 8;
/** Bodies stand back for so long without a rest, and for half of the time at most, however many requests there are. */
const STANDS_BACK_MAX_MS = 8;
/** Times are told in as many bits as a word has. */
const TIMES = 2 ** 30;

export function shortRequestsBytes(processes: number): number {
  return processes * Int32Array.BYTES_PER_ELEMENT;
}

function wordsOf(memory: Uint8Array): Int32Array {
  return new Int32Array(memory.buffer, memory.byteOffset, memory.byteLength / Int32Array.BYTES_PER_ELEMENT);
}

/** Those of one process. */
export class ShortRequests {
  readonly #words: Int32Array;
  readonly #process: number;

  constructor(memory: Uint8Array, process: number) {
    this.#words = wordsOf(memory);
    this.#process = process;
  }

  /** One is under way. Answers with what is to be called when it is over. */
  begin(): () => void {
    const until = (Date.now() + GOES_FIRST_MS) % TIMES;
    Atomics.store(this.#words, this.#process, until);
    // Of several the last to begin decides, so that one that takes long does not hold bodies back for all others.
    return () => void Atomics.compareExchange(this.#words, this.#process, until, 0);
  }
}

/** For one who moves long bodies, and asks often. */
export class StandingBack {
  readonly #words: Int32Array;
  #isDue = false;
  #askedMs = 0;
  /** For how long it may. It has as much again when it has gone on for as long. */
  #leftMs = STANDS_BACK_MAX_MS;

  constructor(memory: Uint8Array) {
    this.#words = wordsOf(memory);
  }

  /** Somebody else goes first. Asked again soon, it will be false. */
  isDue(nowMs = Date.now()): boolean {
    const sinceMs = Math.max(0, nowMs - this.#askedMs);
    this.#askedMs = nowMs;
    // A debt is no larger than what it may have, for it may not have been asked for long.
    const leftMs = this.#leftMs + (this.#isDue ? -sinceMs : sinceMs);
    this.#leftMs = Math.min(STANDS_BACK_MAX_MS, Math.max(-STANDS_BACK_MAX_MS, leftMs));
    this.#isDue = this.#leftMs > 0 && this.#goesFirst(nowMs);
    return this.#isDue;
  }

  #goesFirst(nowMs: number): boolean {
    for (let process = 0; process < this.#words.length; process++) {
      const until = Atomics.load(this.#words, process);
      // What a process left behind that ended, or that was written by a clock that was wrong, is no such time.
      if (until !== 0 && until > nowMs % TIMES && until <= (nowMs % TIMES) + GOES_FIRST_MS) return true;
    }
    return false;
  }
}
