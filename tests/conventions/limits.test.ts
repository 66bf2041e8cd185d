/** docs/limits.md is generated from the code, and a test reaches each of its limits. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { LIMITS, limitTable } from "../../src/cli/commands/limit-table.ts";
import { SETTINGS } from "../../src/cli/settings/settings.ts";
import { inBytes } from "../../src/contract/limit.ts";
import { REACHED_BY } from "./limit-tests.ts";
import { withTable } from "./limits-page.ts";
import { PROJECT, readText } from "./source-files.ts";

const page = readText("docs/limits.md");

describe("docs/limits.md", () => {
  test("has the table that `npm run limits` writes", () => {
    expect(page).toContain(limitTable());
    expect(withTable(page)).toBe(page);
  });

  test("has each limit once", () => {
    const names = LIMITS.map(({ name }) => name);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  });

  test("names existing settings", () => {
    const known = new Set<string>(Object.keys(SETTINGS));
    const named = LIMITS.flatMap(({ setting = "" }) => setting.match(/\bSANDLOT_\w+/g) ?? []);
    expect(named.filter((variable) => !known.has(variable))).toEqual([]);
  });
});

describe("each limit", () => {
  test("has a test, and no other limit is listed", () => {
    expect([...REACHED_BY.keys()].toSorted()).toEqual(LIMITS.map(({ name }) => name).toSorted());
  });

  test.each([...REACHED_BY])("%s is reached by a test that exists", (_, [file, words]) => {
    expect(file).toEndWith(".test.ts");
    expect(existsSync(join(PROJECT, file))).toBe(true);
    expect(readText(file)).toContain(words);
  });
});

test.each([
  [0, "0 bytes"],
  [1000, "1000 bytes"],
  [1024, "1 KiB"],
  [1536, "1536 bytes"],
  [64 * 1024 ** 2, "64 MiB"],
  [20 * 1024 ** 3, "20 GiB"],
])("%p is written as %p", (bytes, text) => {
  expect(inBytes(bytes)).toBe(text);
});
