/** Where frames end, however their bytes come. */
import { expect, test } from "bun:test";
import { fuzzBytes } from "../../work/testing/fuzz.ts";
import { frame } from "../testing/http2-frames.ts";
import { Http2Frames } from "./http2-frames.ts";

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const SENT = Buffer.concat([PREFACE, ...[0, 1, 300, 0, 70_000].map((bytes) => frame(0, 0, 1, Buffer.alloc(bytes)))]);

/** Where the bytes are cut when so many frames are taken at once, and pieces of so many bytes arrive. */
function cuts(bytes: Buffer, most: number, step: number): number[] {
  const frames = new Http2Frames();
  const found: number[] = [];
  for (let from = 0; from < bytes.length; from += step) {
    let rest = bytes.subarray(from, from + step);
    for (;;) {
      const taken = frames.take(rest, most);
      if (taken === rest.length) break;
      found.push(from + step - rest.length + taken - Math.max(0, from + step - bytes.length));
      if (taken === 0) throw new Error("nothing was taken");
      rest = rest.subarray(taken);
    }
  }
  return found;
}

test("one at once, they are cut where each ends, and all at once nowhere", () => {
  expect(cuts(SENT, 1, SENT.length)).toEqual([24 + 9, 24 + 19, 24 + 328, 24 + 337]);
  expect(cuts(SENT, 2, SENT.length)).toEqual([24 + 19, 24 + 337]);
  expect(cuts(SENT, 5, SENT.length)).toEqual([]);
});

fuzzBytes("bytes that come one by one are never cut, and others only where a frame ends", {
  cases: 300,
  seeds: [SENT, Buffer.concat([PREFACE, frame(4, 0, 0, Buffer.alloc(36)), frame(6, 0, 0, Buffer.alloc(8))])],
  check(bytes) {
    expect(cuts(bytes, 1, 1)).toEqual([]);
    const ends = new Set(cuts(bytes, 1, bytes.length));
    for (const cut of cuts(bytes, 3, bytes.length)) expect(ends.has(cut)).toBe(true);
  },
});
