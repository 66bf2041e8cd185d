/** Every program in `examples` is listed there and run by a test. */
import { expect, test } from "bun:test";
import { links, tableRows } from "./markdown.ts";
import { projectFiles, readText, testFiles } from "./source-files.ts";

const programs = projectFiles()
  .map(({ path }) => /^examples\/([\w-]+\.mjs)$/.exec(path)?.[1])
  .filter((name) => name !== undefined);

test("the list has every example, and no others", () => {
  const listed = tableRows(readText("examples/README.md"), ["Program", "What it shows", "Template"]);
  expect(listed.flatMap(({ Program = "" }) => links(Program)).toSorted()).toEqual(programs.toSorted());
});

test.each(programs)("%s is run by a test", (name) => {
  const tests = testFiles().filter(({ path }) => path.startsWith("tests/functional/examples/"));
  expect(tests.filter(({ text }) => text.includes(`runExample("${name}"`)).length).toBeGreaterThan(0);
});
