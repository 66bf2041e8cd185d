/** Comments keep to the line width of code, which the formatter does not enforce for them. */
import { expect, test } from "bun:test";
import { benchFiles, readText, type SourceFile, sourceFiles, testFiles } from "./source-files.ts";

const { formatter } = JSON.parse(readText("biome.json")) as { formatter: { lineWidth: number } };
/**
 * A comment line, or code with a trailing comment. `https://` in a string does not match: a trailing comment needs a
 * space before it.
 */
const COMMENT = /^\s*(?:\/\/|\/\*|\*(?:\s|\/|$))|\s\/\/\s|\s\/\*\*?\s/;

test(`comments have at most ${formatter.lineWidth} characters in a line`, () => {
  expect(formatter.lineWidth).toBe(120);
  const tooLong = [...sourceFiles(), ...benchFiles(), ...testFiles()].flatMap(longComments);
  expect(tooLong).toEqual([]);
});

test("comments are found in every position", () => {
  const far = "x".repeat(120);
  const found = [`// ${far}`, `/** ${far} */`, ` * ${far}`, `const a = 1; // ${far}`, `a: number; /* ${far} */`];
  const others = [`const url = "https://${far}";`, `const text = "${far}";`, "// short", `import a from "${far}";`];
  const count = (lines: string[]) => longComments({ path: "a.ts", text: lines.join("\n") }).length;
  expect([count(found), count(others)]).toEqual([found.length, 0]);
});

function longComments({ path, text }: SourceFile): string[] {
  return text.split("\n").flatMap((line, at) => {
    const length = [...line].length;
    return length > formatter.lineWidth && COMMENT.test(line) ? [`${path}:${at + 1} has ${length} characters`] : [];
  });
}
