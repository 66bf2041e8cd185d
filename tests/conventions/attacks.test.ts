/** The list of attacks, the tests it names and the table in docs/security.md agree. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { IS_WRITING, recorded, tableOf, tableOn, writeTable } from "../security/attacks/attack-table.ts";
import { ATTACKS } from "../security/attacks/attacks.ts";
import { PROJECT, readText } from "./source-files.ts";

const COUNT = 58;

test("every attack is in the list once, in order", () => {
  expect(ATTACKS.map(({ number }) => number)).toEqual(Array.from({ length: COUNT }, (_, at) => at + 1));
});

test("each attack has an attempt, an existing test, or a reason why not", () => {
  const untried = ATTACKS.filter(
    ({ inside, tests = [], notApplicable }) => inside !== true && tests.length === 0 && notApplicable === undefined,
  );
  expect(untried.map(({ number }) => number)).toEqual([]);
});

test("every named test exists under its title", () => {
  const missing = ATTACKS.flatMap(({ number, tests = [], behindRunsc = [] }) =>
    [...tests, ...behindRunsc]
      .filter(([file, title]) => !existsSync(join(PROJECT, file)) || !hasTitle(readText(file), title))
      .map(([file, title]) => `${number}: ${file} has no "${title}"`),
  );
  expect(missing).toEqual([]);
});

test("a title is found completely or as part of a template, and not in skipped tests", () => {
  expect(hasTitle('test("a b", () => {', "a b")).toBe(true);
  expect(hasTitle("test(`a b $c`, () => {", "a b ")).toBe(true);
  expect(hasTitle('test(\n  "a b",', "a b")).toBe(true);
  expect(hasTitle('test.each(["x"])("a %s", () => {', "a %s")).toBe(true);
  expect(hasTitle('test.skip("a b", () => {', "a b")).toBe(false);
  expect(hasTitle('test("a b c", () => {', "a b")).toBe(false);
  expect(hasTitle("// a b", "a b")).toBe(false);
});

test("security.md has the generated table", () => {
  if (IS_WRITING) writeTable();
  expect(tableOn(readText("docs/security.md"))).toBe(tableOf(recorded()));
});

/** Whether the text has this title between quotes or as part of a template, and not as the title of a skipped test. */
function hasTitle(text: string, title: string): boolean {
  const escaped = RegExp.escape(title);
  const isThere = new RegExp(`"${escaped}"|\`[^\`]*${escaped}[^\`]*\``).test(text);
  return isThere && !new RegExp(`\\.(?:skip|todo)\\(\\s*["\`]${escaped}`).test(text);
}
