/** A command's output: whole lines without redrawn text, and its end for an error message. */
import { expect, test } from "bun:test";
import { BUILD_LOG_LINE_MAX_CHARS, BUILD_TAIL_MAX_CHARS, CommandOutput, silentOutput } from "./command-output.ts";

function linesOf(...chunks: (string | Uint8Array)[]): string[] {
  const printed: string[] = [];
  const lines = new CommandOutput((line) => printed.push(line));
  for (const chunk of chunks) lines.take(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk);
  lines.end();
  return printed;
}

const long = "x".repeat(BUILD_LOG_LINE_MAX_CHARS);
const euro = new TextEncoder().encode("€");

test.each([
  ["whole lines", ["a\nb\n"], ["a", "b"]],
  ["a line in pieces", ["a", "b", "c\nd"], ["abc", "d"]],
  ["empty lines", ["\n\na\n"], ["", "", "a"]],
  ["lines of Windows", ["a\r\nb\r", "\nc\r\n"], ["a", "b", "c"]],
  ["output that overwrites its line", ["1%\r2", "%\r", "3%\ndone"], ["3%", "done"]],
  ["a zero", ["a\0b\n"], ["a\ufffdb"]],
  ["a character in pieces", [euro.subarray(0, 1), euro.subarray(1), "\n"], ["€"]],
  ["half a character at the end", [euro.subarray(0, 2)], ["\ufffd"]],
  ["a line without an end", [`${long}a`, "b\n"], [long, "ab"]],
  ["a long line", [`${long}${long}\n`], [long, long]],
  ["nothing", [], []],
])("%s", (_, chunks, lines) => {
  expect(linesOf(...chunks)).toEqual(lines);
});

test("the last lines are kept for the message of a failure", () => {
  const output = silentOutput();
  const many = Array.from({ length: BUILD_TAIL_MAX_CHARS }, (_, at) => `line ${at}`);
  output.take(new TextEncoder().encode(many.join("\n")));
  const tail = output.end();
  expect(tail.length).toBeLessThanOrEqual(BUILD_TAIL_MAX_CHARS);
  expect(tail).toEndWith(`line ${BUILD_TAIL_MAX_CHARS - 2}\nline ${BUILD_TAIL_MAX_CHARS - 1}`);
});
