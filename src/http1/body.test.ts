/** Chunked bodies: their end and what is rejected. */
import { describe, expect, test } from "bun:test";
import { CHUNK_LINE_MAX_BYTES, CHUNK_TRAILERS_MAX, ChunkedBody, chunkAhead } from "./body.ts";

type Rules = ConstructorParameters<typeof ChunkedBody>[0];

/** The data passed on and the data left behind the body, read in pieces of so many bytes. */
function follow(text: string, rules: Rules, pieceBytes = text.length): { passed: string; surplus: number } | string {
  const body = new ChunkedBody(rules);
  let passed = "";
  for (let at = 0; at < text.length && !body.ended; at += pieceBytes) {
    const piece = Buffer.from(text.slice(at, at + pieceBytes), "latin1");
    try {
      passed += body.take(piece).toString("latin1");
    } catch {
      return "refused";
    }
  }
  return body.ended ? { passed, surplus: body.surplus } : "more";
}

const RELAYED: Rules = { lines: "kept", refusesExtensions: true };

describe("a chunked body", () => {
  test.each([
    ["one chunk", "3\r\nabc\r\n0\r\n\r\n", "abc"],
    ["in hex, of either case", "A\r\n0123456789\r\n0a\r\n0123456789\r\n00\r\n\r\n", "01234567890123456789"],
    ["with trailers", "1\r\na\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n", "a"],
  ])("is read to its end: %s", (_, text, content) => {
    expect(follow(`${text}GET`, {})).toEqual({ passed: content, surplus: 3 });
    expect(follow(text, {}, 1)).toEqual({ passed: content, surplus: 0 });
    expect(follow(`${text}GET`, RELAYED)).toEqual({ passed: text, surplus: 3 });
    expect(follow(text, RELAYED, 1)).toEqual({ passed: text, surplus: 0 });
    expect(follow(text.slice(0, -1), {})).toBe("more");
  });

  test.each([
    ["no size", "\r\nabc"],
    ["a size with a prefix", "0x3\r\nabc\r\n"],
    ["a size with a sign", "+3\r\nabc\r\n"],
    ["a size of LF alone", "3\nabc\r\n"],
    ["a CR behind a size", "3\rabc\r\n"],
    ["a chunk longer than it says", "3\r\nabcd\r\n"],
    ["a chunk that ends with LF", "3\r\nabc\n0\r\n\r\n"],
    ["a size that is too long", "100000000\r\n"],
    ["a line that is too long", `1;${"x".repeat(CHUNK_LINE_MAX_BYTES)}`],
    ["a Host that comes too late", "0\r\nHost: b.test\r\n\r\n"],
    ["a length that comes too late", "0\r\nContent-LENGTH: 1\r\n\r\n"],
    ["a trailer that is none", "0\r\nGET / HTTP/1.1\r\n\r\n"],
    ["a folded trailer", "0\r\nA: b\r\n c\r\n\r\n"],
    ["a trailer that ends with LF", "0\r\nA: b\n\r\n"],
    ["a trailer with a control character", "0\r\nA: \x01\r\n\r\n"],
    ["a trailer that is too long", `0\r\nX: ${"x".repeat(CHUNK_LINE_MAX_BYTES)}`],
    ["too many trailers", `0\r\n${"A: b\r\n".repeat(CHUNK_TRAILERS_MAX + 1)}`],
  ])("is refused for %s", (_, text) => {
    expect(follow(text, {})).toBe("refused");
    expect(follow(text, RELAYED, 1)).toBe("refused");
  });

  test("may have extensions and whitespace, except in a request that is relayed unchanged", () => {
    for (const text of ["3;a=b\r\nabc\r\n0\r\n\r\n", "3 \r\nabc\r\n0\r\n\r\n", "3 ;a=b\r\nabc\r\n0\r\n\r\n"]) {
      expect(follow(text, {})).toEqual({ passed: "abc", surplus: 0 });
      expect(follow(text, { lines: "kept" })).toEqual({ passed: text, surplus: 0 });
      for (const pieceBytes of [1, text.length]) {
        const plain = { passed: "3\r\nabc\r\n0\r\n\r\n", surplus: 0 };
        expect(follow(text, { lines: "plain" }, pieceBytes)).toEqual(plain);
      }
      expect(follow(text, RELAYED)).toBe("refused");
    }
  });

  test("is read in parts if a call may read a bounded number of chunks", () => {
    const body = new ChunkedBody({ chunksAtOnce: 2 });
    const bytes = Buffer.from("1\r\na\r\n".repeat(5));
    expect([body.take(bytes).toString(), body.untaken]).toEqual(["aa", 20]);
    expect([body.take(bytes.subarray(10)).toString(), body.untaken]).toEqual(["aa", 8]);
  });
});

test.each([
  ["\r\n4000\r\n", 8 + 0x4000],
  ["\r\n0004000\r\nabcdef", 11 + 0x4000],
  ["\r\nffffffff\r\n", 12 + 0xffffffff],
])("a splice goes on over %j when its line is complete", (text, bytes) => {
  const look = (length: number) => chunkAhead(Buffer.from(text.slice(0, length)));
  expect(look(text.length)).toBe(bytes);
  for (let length = 0; length < text.indexOf("\r\n", 2) + 2; length++) expect(look(length)).toBeUndefined();
});

const ENDS =
  "0\r\n\r\n|00000000\r\n|0\r\nX-T: 12|4000;a=b\r\n|4000 \r\n| 40\r\n|+40\r\n|0x40\r\n|\r\n|40\n|123456789\r\n";
const OTHERS = ["\n40\r\n", "\r40\r\n", "40\r\n"];
test.each([...ENDS.split("|").map((line) => `\r\n${line}`), ...OTHERS])(
  "a splice stops before %j, which the reader judges",
  (text) => {
    expect(chunkAhead(Buffer.from(text))).toBe(0);
  },
);
