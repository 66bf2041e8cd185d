/** No program that the server starts inherits its environment, which belongs to the operator. */
import { expect, test } from "bun:test";
import { isTestCode } from "./import-rules.ts";
import { sourceFiles } from "./source-files.ts";

/** Becomes the server, or is the operator's own command. */
const PASSES_ON = /^src\/cli\//;
const STARTS = /\bBun\.spawn(?:Sync)?\(|\bnew Worker\(|\bchild_process\b/g;
/** Length of the text after a spawn that contains its options. */
const OPTIONS_MAX_CHARS = 400;

test("every started program gets an explicit environment", () => {
  const sources = sourceFiles().filter(({ path }) => !isTestCode(path) && !PASSES_ON.test(path));
  const starts = sources.flatMap(({ path, text }) =>
    [...text.matchAll(STARTS)].map(({ 0: call, index }) => ({
      path,
      call,
      hasOwn: /\benv\b\s*[:,]/.test(text.slice(index, index + OPTIONS_MAX_CHARS)),
    })),
  );
  // A thread is no program: it has the server's memory anyway.
  const heirs = starts.filter(({ call, hasOwn }) => !hasOwn && call !== "new Worker(");
  expect(heirs).toEqual([]);
  expect(starts.length).toBeGreaterThan(5);
});
