import { expect, test } from "bun:test";
import { constants, runInThisContext } from "node:vm";
import { CellSyntaxError, type Script, scriptOf } from "./cell.ts";

/** In this process, as the runner does it, in global scope. */
async function runHere(code: string, language: "javascript" | "typescript" = "javascript"): Promise<unknown> {
  const { source, isAsync, hasValue }: Script = scriptOf(code, language);
  const given: unknown = runInThisContext(source, {
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER as never,
  });
  if (!isAsync) return hasValue ? await given : undefined;
  const result = (await given) as { value: unknown } | undefined;
  return hasValue ? result?.value : undefined;
}

test.each<[code: string, value: unknown]>([
  ["1 + 1", 2],
  ["{ a: 1, b: { c: 2 } }", { a: 1, b: { c: 2 } }],
  ["{ a: await 1 }", { a: 1 }],
  ["({ a: 1 })", { a: 1 }],
  ["(await 5)", 5],
  ["await 5 // five", 5],
  ["await 5; // five", 5],
  ["const cellA = 1", undefined],
  ["7; const cellB = 1", undefined],
  ["await 1; const cellB2 = 1", undefined],
  ["for (const x of [1]) x", undefined],
  ["'use strict'; (function () { return this })()", undefined],
  ["let cellC = 1, { cellD, ...cellE } = { cellD: 2, cellF: 3 }; [cellC, cellD, cellE]", [1, 2, { cellF: 3 }]],
  ["await 1\nlet cellG\nconst [cellH = 4] = []\n;[cellG, cellH]", [undefined, 4]],
  ["for (var cellI = 0; cellI < 3; cellI++) { var cellJ = cellI }\nawait cellJ", 2],
  ["if (true) { var cellK = 1 }\nawait cellK", 1],
  ["await 1\nfor (var cellL in { q: 1 });\ncellL", "q"],
  ["import cellPath, { sep as cellSep } from 'node:path'; [cellPath.sep, cellSep]", ["/", "/"]],
  ["import * as cellAll from 'node:path'; cellAll.sep", "/"],
  ["import cellM, * as cellN from 'node:path'\ncellM === cellN.default", true],
  ["export const cellO = 3; cellO", 3],
  ["export default function cellP() { return 4 }\ncellP()", 4],
  ["const cellQ = 1\nexport { cellQ }\ncellQ", 1],
  ["await 1\nfoo(1)\nfunction foo(x) { return x }\nclass CellR {}\nnew CellR() instanceof CellR", true],
  ["const cellS: number = 1; cellS as unknown", 1],
  ["enum CellT { A, B }", undefined],
  ["enum CellU { A, B }\nCellU.B", 1],
  ["namespace CellV { export const a = 1 }\nCellV.a", 1],
  ["async function cellW() { return await 6 }\ncellW()", 6],
  ["#!/usr/bin/env node\n8", 8],
  ["", undefined],
  ["// nothing", undefined],
])("%j gives %p", async (code, value) => {
  expect(await runHere(code)).toEqual(value);
});

test.each<[first: string, second: string, value: unknown]>([
  ["const again = 1", "const again = 2; again", 2],
  ["class Again {}", "class Again { static x = 1 }\nAgain.x", 1],
  ["await 1; let again2 = 1", "again2", 1],
  ["import again3 from 'node:path'", "import again3 from 'node:os'; typeof again3.cpus", "function"],
  ["await 1; function again4() { return 1 }", "again4()", 1],
])("names of %j exist in %j", async (first, second, value) => {
  await runHere(first);
  expect(await runHere(second)).toEqual(value);
});

test("types are removed from any code", async () => {
  const code = `
    import type { Stats } from "node:fs"
    interface Point { x: number }
    class Typed<T> { constructor(private readonly value: T) {} get(): T { return this.value! } }
    const point = { x: 1 } satisfies Point
    new Typed<Point>(point).get().x`;
  expect(await runHere(code, "typescript")).toBe(1);
});

test("statements keep their lines", () => {
  const { source } = scriptOf(
    "import {\n  a,\n  b,\n} from 'x'\nenum E {\n  A\n}\nawait 1\nthrow new Error()",
    "typescript",
  );
  expect(source.split("\n").findIndex((line) => line.includes("throw"))).toBe(8);
});

test.each<[code: string, line: number, message: string]>([
  ["x y", 1, "Unexpected token"],
  ["\nf(", 2, "Unexpected token"],
  ["const twice = 1\nconst twice = 2", 2, "Identifier 'twice' has already been declared"],
  ["() => await 1", 1, "Unexpected token"],
  ["@decorated class A {}", 1, "Unexpected character '@'"],
])("%j is refused for its line %p", (code, line, message) => {
  let thrown: unknown;
  try {
    scriptOf(code, "javascript");
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(CellSyntaxError);
  expect(thrown).toMatchObject({ line, message });
});
