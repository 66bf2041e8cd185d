/**
 * Fuzzes a parser of hostile bytes with valid examples, changed at random (seed.ts) and mixed with known troublemakers.
 * Each case must hold an invariant of the parser. SANDLOT_TEST_LONG=1 runs a hundred times as many cases. A failure
 * reports its input and the seed that replays it.
 */
import { expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { LONG } from "./long.ts";
import { SEED } from "./seed.ts";

const CASES = 1_500;
const LONGER = LONG ? 100 : 1;
const INPUT_MAX = 64 * 1024;
/** Maximum time for one input; a regular expression with catastrophic backtracking exceeds it at once. */
const CASE_MAX_MS = 30_000;
const TEST_MS = 300_000 * LONGER;

/** Text that has a special meaning to some parser. */
const WORDS = [
  ..."\0\t\n\r \"'\\/:;,.=&?#%@[]{}()<>|$*+-_~^!`",
  "\r\n",
  "\r\n\r\n",
  "\n\n",
  "\\n",
  "..",
  "../",
  "//",
  "%00",
  "%2e%2e",
  "%252f",
  "%",
  "-1",
  "0",
  "1e309",
  "0x7f",
  "010",
  "65536",
  "4294967296",
  "9007199254740993",
  "99999999999999999999",
  "NaN",
  "__proto__",
  "constructor",
  "toString",
  "null",
  "true",
  "{}",
  "[]",
  '{"toString":1,"valueOf":1}',
  '{"__proto__":{"a":1}}',
  "é",
  "\u0130",
  "\u212a",
  "\u2028",
  "\u0000",
  "\ud800",
  "\ufeff",
  "😀",
  "127.0.0.1",
  "::ffff:127.0.0.1",
  "[::1]",
  "localhost",
];

export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From zero up to, not including, `bound` (mulberry32). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  /** The same bytes in chunks of random length. */
  split(bytes: Buffer): Buffer[] {
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + this.below(this.below(4) === 0 ? bytes.length : 16);
      // A copy each: some parsers change a chunk in place.
      pieces.push(Buffer.from(bytes.subarray(at, at + length)));
      at += length;
    }
    return pieces;
  }
}

type Change<T> = (input: T, other: T, random: SeededRandom) => T;

const TEXT_CHANGES: readonly Change<string>[] = [
  (text, _, random) => text.slice(0, random.below(text.length + 1)),
  (text, _, random) => text.slice(random.below(text.length + 1)),
  (text, _, random) => cut(text, random, ""),
  (text, _, random) => cut(text, random, random.pick(WORDS)),
  (text, _, random) => inserted(text, random, random.pick(WORDS)),
  (text, _, random) => inserted(text, random, random.pick(WORDS).repeat(1 + random.below(40))),
  (text, other, random) => text.slice(0, random.below(text.length + 1)) + other.slice(random.below(other.length + 1)),
  (text, _, random) => {
    const [from, to] = [random.below(text.length + 1), random.below(text.length + 1)].sort((a, b) => a - b) as [
      number,
      number,
    ];
    return text.slice(0, to) + text.slice(from, to).repeat(1 + random.below(20)) + text.slice(to);
  },
  (text, _, random) =>
    text.replace(/\d+/, () => random.pick(["0", "-1", "00", "256", "65536", "99999999999999999999", ""])),
  (text) => text.toUpperCase(),
];

/** Replaces a random range. */
function cut(text: string, random: SeededRandom, instead: string): string {
  const at = random.below(text.length + 1);
  return text.slice(0, at) + instead + text.slice(at + random.below(8));
}

function inserted(text: string, random: SeededRandom, what: string): string {
  const at = random.below(text.length + 1);
  return text.slice(0, at) + what + text.slice(at);
}

const BYTE_CHANGES: readonly Change<Buffer>[] = [
  (bytes, _, random) => {
    const changed = Buffer.from(bytes);
    if (changed.length > 0)
      changed[random.below(changed.length)] = random.pick([0, 1, 0x7f, 0x80, 0xff, random.below(256)]);
    return changed;
  },
  // One byte per character (latin1), so that the words above occur in bytes too.
  ...TEXT_CHANGES.slice(0, -1).map(
    (change): Change<Buffer> =>
      (bytes, other, random) =>
        Buffer.from(change(bytes.toString("latin1"), other.toString("latin1"), random), "latin1"),
  ),
  (bytes, _, random) => {
    const changed = Buffer.from(bytes);
    const at = random.below(Math.max(1, changed.length - 3));
    if (at + 4 <= changed.length)
      changed.writeUInt32BE(random.pick([0, 1, 0x7fffffff, 0xffffffff, random.below(2 ** 16)]), at);
    return changed;
  },
];

interface Fuzzed<T> {
  seeds: readonly T[];
  /** Throws when the invariant is broken. `random` supplies further random choices. */
  check(input: T, random: SeededRandom): void | Promise<void>;
  /** Instead of the default number. */
  cases?: number;
}

export function fuzzText(name: string, fuzzed: Fuzzed<string>): void {
  fuzz(name, fuzzed, TEXT_CHANGES, (text) => JSON.stringify(text));
}

export function fuzzBytes(name: string, fuzzed: Fuzzed<Buffer>): void {
  fuzz(name, fuzzed, BYTE_CHANGES, (bytes) => `${bytes.toString("base64")} (base64)`);
}

function fuzz<T extends { length: number; slice(from: number, to: number): T }>(
  name: string,
  { seeds, check, cases = CASES }: Fuzzed<T>,
  changes: readonly Change<T>[],
  shown: (input: T) => string,
): void {
  const play = async () => {
    const random = new SeededRandom(SEED);
    for (let count = 0; count < cases * LONGER; count++) {
      let input = random.pick(seeds);
      // The first cases are the unchanged examples.
      const times = count < seeds.length ? 0 : 1 + random.below(4);
      if (times === 0) input = seeds[count] ?? input;
      for (let more = times; more > 0; more--)
        input = random.pick(changes)(input, random.pick(seeds), random).slice(0, INPUT_MAX);
      const began = performance.now();
      try {
        await check(input, random);
      } catch (cause) {
        throw new Error(`case ${count} of SANDLOT_TEST_SEED=${SEED}: ${shown(input).slice(0, 2_000)}`, { cause });
      }
      const ms = performance.now() - began;
      if (ms > CASE_MAX_MS) throw new Error(`case ${count} took ${ms} ms: ${shown(input).slice(0, 2_000)}`);
    }
  };
  test(`${name}, whatever is in it`, play, TEST_MS);
}

/** The result of `parse`, or undefined when it rejects properly: with a Fault that blames the sender. */
export function orRefused<T>(parse: () => T, statuses: readonly number[] = [400]): T | undefined {
  try {
    return parse();
  } catch (thrown) {
    requireRefusal(thrown, statuses);
    return undefined;
  }
}

export async function orRefusedLater<T>(
  parse: () => Promise<T>,
  statuses: readonly number[] = [400],
): Promise<T | undefined> {
  try {
    return await parse();
  } catch (thrown) {
    requireRefusal(thrown, statuses);
    return undefined;
  }
}

function requireRefusal(thrown: unknown, statuses: readonly number[]): void {
  if (!(thrown instanceof Fault)) throw thrown;
  expect(statuses).toContain(thrown.status);
  // A message may quote what was wrong, but not the whole input.
  expect(thrown.message.length).toBeLessThan(4_096);
}
