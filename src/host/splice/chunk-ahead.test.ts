/** What is between two chunks, whole and in every part that may have come of it. */
import { expect, test } from "bun:test";
import { CHUNK_LINES_MAX_BYTES, chunkAhead } from "./chunk-ahead.ts";

const look = (text: string) => chunkAhead(Buffer.from(text, "latin1"));

test.each([
  ["\r\n1\r\n", 6],
  ["\r\n4000\r\n", 8 + 0x4000],
  ["\r\n0004000\r\nabcdef", 11 + 0x4000],
  ["\r\nABCDEF\r\n", 10 + 0xabcdef],
  ["\r\nffffffff\r\n", 12 + 0xffffffff],
])("%j begins a chunk, and so does no part of it", (text, bytes) => {
  expect(look(text)).toBe(bytes);
  const lineEnd = text.indexOf("\r\n", 2) + 2;
  for (let length = 0; length < lineEnd; length++) expect(look(text.slice(0, length))).toBeUndefined();
});

// Each is for the one reader of HTTP to judge.
test.each([
  "\r\n0\r\n\r\n",
  "\r\n00000000\r\n",
  "\r\n4000;name=value\r\n",
  "\r\n4000 \r\n",
  "\r\n 4000\r\n",
  "\r\n+4000\r\n",
  "\r\n0x4000\r\n",
  "\r\n-1\r\n",
  "\r\n\r\n",
  "\r\n4000\n",
  "\n4000\r\n",
  "\r4000\r\n",
  "\r\n4000\r4000",
  "\r\n123456789\r\n",
  "4000\r\n",
  "more\r\n4000\r\n",
])("%j is left", (text) => {
  expect(look(text)).toBe(0);
});

test("no more is looked at than the longest lines are", () => {
  expect(look("\r\n4000\r\n".padEnd(10 * CHUNK_LINES_MAX_BYTES, "x"))).toBe(8 + 0x4000);
});
