import { expect, test } from "bun:test";
import { chunkPieces, LINE_MAX_CHARS, linePieces } from "./text.ts";

test("lines are sent one by one, for every split", () => {
  const reported: string[] = [];
  const pieces = linePieces((text) => reported.push(text));
  for (const part of ["a\nb", "c\n\n", "d"]) pieces.take(Buffer.from(part));
  expect(reported).toEqual(["a\n", "bc\n", "\n"]);
  pieces.flush();
  expect(reported).toEqual(["a\n", "bc\n", "\n", "d"]);
});

test("a line without a newline is sent after a moment", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  linePieces(resolve).take(Buffer.from("50 %"));
  expect(await promise).toBe("50 %");
});

test("a line of any length is sent", () => {
  const reported: string[] = [];
  const pieces = linePieces((text) => reported.push(text));
  pieces.take(Buffer.from("x".repeat(LINE_MAX_CHARS + 1)));
  expect(reported.join("")).toHaveLength(LINE_MAX_CHARS + 1);
  pieces.flush();
});

test("characters are not split, and invalid bytes are replaced", () => {
  const reported: string[] = [];
  const pieces = chunkPieces((text) => reported.push(text));
  const bytes = Buffer.from("é€");
  pieces.take(bytes.subarray(0, 3));
  pieces.take(bytes.subarray(3));
  pieces.take(Uint8Array.of(0xff, 0xe2));
  pieces.flush();
  expect(reported).toEqual(["é", "€", "\ufffd", "\ufffd"]);
});
