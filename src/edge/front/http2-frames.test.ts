/** Parsing of a client's HTTP/2 frames, however their bytes arrive. */
import { expect, test } from "bun:test";
import { fuzzBytes } from "../../base/testing/fuzz.ts";
import { frame } from "../testing/http2-frames.ts";
import { type FrameTaker, Http2Frames } from "./http2-frames.ts";

type Bytes = Buffer<ArrayBuffer>;

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const [DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION] = [0, 1, 4, 6, 8, 9];
const [END_STREAM, END_HEADERS, PADDED] = [1, 4, 8];
/** DATA of these streams is taken. */
const TAKEN = [1, 3];

const number = (value: number) => Buffer.from([0, 0, value >> 8, value & 255]);
const padded = (content: string, padding: number) =>
  Buffer.concat([Buffer.from([padding]), Buffer.from(content), Buffer.alloc(padding, "#")]);

/** The data taken of each stream, the data the library got, and how often bytes were left for another turn. */
function read(bytes: Buffer, most: number, step: number) {
  const seen = { bodies: new Map<number, string>(), windows: [] as string[], library: "", turns: 0, counted: 0 };
  const taker: FrameTaker = {
    pass(passed) {
      seen.library += passed.toString("latin1");
    },
    takesData(stream, length) {
      if (!TAKEN.includes(stream)) return false;
      seen.counted += length;
      return true;
    },
    data(stream, content) {
      seen.bodies.set(stream, (seen.bodies.get(stream) ?? "") + content.toString("latin1"));
      // As if it had been sent and freed.
      if (content.length === content.buffer.byteLength) content.fill("!");
    },
    dataEnded: () => true,
    windowOpened: (stream, length) => TAKEN.includes(stream) && seen.windows.push(`${stream}+${length}`) > 0,
    initialWindow: (length) => void seen.windows.push(`all=${length}`),
  };
  const frames = new Http2Frames(taker);
  for (let from = 0; from < bytes.length; from += step) {
    let rest: Bytes | undefined = Buffer.from(bytes.subarray(from, from + step));
    while (rest !== undefined) {
      const length: number = rest.length;
      rest = frames.take(rest, most);
      seen.turns += 1;
      if (rest?.length === length) throw new Error("nothing was taken");
    }
  }
  return seen;
}

const FIRST = [PREFACE, frame(HEADERS, 4, 1, Buffer.from("head"))];
const OTHERS = [frame(PING, 0, 0, Buffer.alloc(8)), frame(DATA, 0, 5, Buffer.from("not taken"))];
const SETTING = frame(SETTINGS, 0, 0, Buffer.from([0, 3, 0, 0, 0, 9, 0, 4, 0, 0, 1, 2]));
const parts = (longest: number) => [
  ...FIRST,
  SETTING,
  frame(DATA, 0, 1, Buffer.from("one ")),
  frame(DATA, 0, 1, Buffer.from("two ")),
  frame(DATA, PADDED, 1, padded("three ", 7)),
  frame(DATA, 0, 3, Buffer.alloc(300, "x")),
  frame(WINDOW_UPDATE, 0, 1, number(700)),
  frame(WINDOW_UPDATE, 0, 7, number(9)),
  ...OTHERS,
  frame(DATA, 0, 3, Buffer.alloc(longest, "y")),
  frame(DATA, END_STREAM, 1, Buffer.from("four")),
];
const SENT = Buffer.concat(parts(16_384));
const PASSED = Buffer.concat([...FIRST, SETTING, frame(WINDOW_UPDATE, 0, 7, number(9)), ...OTHERS]);

test.each([1, 7, 64, 1000, SENT.length])("bodies and windows are taken from pieces of %d bytes", (step) => {
  const seen = read(SENT, 64, step);
  expect(seen.bodies).toEqual(
    new Map([
      [1, "one two three four"],
      [3, "x".repeat(300) + "y".repeat(16_384)],
    ]),
  );
  expect(seen.windows).toEqual(["all=258", "1+700"]);
  expect(seen.library).toBe(Buffer.concat([PASSED, frame(DATA, END_STREAM, 1)]).toString("latin1"));
  // The padding, and the byte that tells its length, count.
  expect(seen.counted).toBe("one two three four".length + 8 + 300 + 16_384);
});

test.each([
  ["is too long", frame(DATA, 0, 1, Buffer.alloc(16_385))],
  ["has more padding than content", frame(DATA, PADDED, 1, Buffer.from([5, 1, 2, 3, 4]))],
  ["has no length of its padding", frame(DATA, PADDED, 1)],
])("a DATA frame that %s is left to the library to reject", (_what, broken) => {
  const seen = read(Buffer.concat([PREFACE, broken]), 64, 50);
  expect([seen.bodies.size, seen.library.length]).toEqual([0, PREFACE.length + broken.length]);
});

test.each([
  ["DATA", frame(DATA, 0, 1, Buffer.from("a"))],
  ["WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 1, number(9))],
  ["SETTINGS", frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 1, 2]))],
])("a frame of %s inside a header block is left to the library, and is parsed after it", (_what, inside) => {
  const begun = [PREFACE, frame(HEADERS, 0, 3, Buffer.from("he")), inside];
  const ended = frame(CONTINUATION, END_HEADERS, 3, Buffer.from("ad"));
  const seen = read(Buffer.concat([...begun, ended, frame(DATA, 0, 1, Buffer.from("b"))]), 64, 50);
  expect([seen.bodies, seen.windows]).toEqual([new Map([[1, "b"]]), []]);
  expect(seen.library).toBe(Buffer.concat([...begun, ended]).toString("latin1"));
});

// Each makes all waiting answers look at their window: 64 such frames and 250 answers held up others for 1.3 s.
test("of several initial windows in one frame the last applies", () => {
  const settings = Array.from({ length: 2700 }, (_, at) => Buffer.from([0, 4, 0, 0, at >> 8, at & 255]));
  const seen = read(Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, Buffer.concat(settings))]), 64, 20_000);
  expect(seen.windows).toEqual(["all=2699"]);
});

test("the number of frames read at once is bounded", () => {
  const many = Buffer.concat([PREFACE, ...Array.from({ length: 100 }, () => frame(DATA, 0, 1, Buffer.from("a")))]);
  const seen = read(many, 10, many.length);
  expect([seen.bodies.get(1), seen.turns]).toEqual(["a".repeat(100), 10]);
});

fuzzBytes("frames are parsed alike for every split", {
  cases: 200,
  seeds: [Buffer.concat(parts(50))],
  check(bytes) {
    const { turns: _, ...whole } = read(bytes, 64, Math.max(1, bytes.length));
    for (const step of [1, 13, 200]) {
      const { turns: __, ...seen } = read(bytes, 3, step);
      expect(seen).toEqual(whole);
    }
  },
});
