/**
 * Reseeds all random generators of this process. Copies of a snapshot start with the same state, so each calls this
 * before its first cell.
 *
 * V8 cannot reseed `Math.random`, so it is replaced from the start: even saved references to it can be reseeded.
 * OpenSSL can: `RAND_poll` seeds its first generator from the system, and with it those of all threads at their next
 * use. Node's buffered random values are used up.
 */
import { randomInt, randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { kernelRandomBytes } from "../../../../base/kernel-random.ts";

/** Numbers of values that Node buffers. */
const UUIDS_IN_STOCK = 128;
const INTEGERS_IN_STOCK = 1024;
const WORDS = 4;
/** 53 bits, as in V8: 27 of one word, 26 of the next. */
const HIGH_BITS = 26;
const HIGH_SHIFT = 32 - 27;
const LOW_SHIFT = 32 - HIGH_BITS;

const state = new Uint32Array(WORDS);
let poll: () => number = () => {
  throw new Error("OpenSSL cannot be reached: the package koffi is not where the runner is");
};

export function replaceMathRandom(): void {
  seedMathRandom();
  const { random } = {
    random: (): number => ((next() >>> HIGH_SHIFT) * 2 ** HIGH_BITS + (next() >>> LOW_SHIFT)) / 2 ** 53,
  };
  Object.defineProperty(Math, "random", { configurable: true, writable: true, enumerable: false, value: random });
}

export function reseed(): void {
  if (poll() !== 1) throw new Error("OpenSSL could not be seeded again");
  for (let count = 0; count < UUIDS_IN_STOCK; count++) randomUUID();
  for (let count = 0; count < INTEGERS_IN_STOCK; count++) randomInt(2);
  seedMathRandom();
}

function seedMathRandom(): void {
  state.set(new Uint32Array(kernelRandomBytes(state.byteLength).buffer));
}

/** xoshiro128**: all 32 bits are good, and it has 2^128 states. */
function next(): number {
  const [a = 0, b = 0, c = 0, d = 0] = state;
  const product = Math.imul(b, 5);
  const result = Math.imul((product << 7) | (product >>> 25), 9);
  const third = c ^ a;
  const fourth = d ^ b;
  state[0] = a ^ fourth;
  state[1] = b ^ third;
  state[2] = third ^ (b << 9);
  state[3] = (fourth << 11) | (fourth >>> 21);
  return result;
}

/** Finds the OpenSSL that this very process has loaded. */
export function prepareReseed(): void {
  try {
    const koffi = createRequire(import.meta.url)("koffi");
    poll = koffi.load(null).func("int RAND_poll()");
  } catch {
    // `reseed` reports the missing function.
  }
}
