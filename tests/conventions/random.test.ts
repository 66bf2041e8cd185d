/**
 * The guest and the MCP gateway are copied while they run, so they must not keep random numbers in stock: every copy
 * would have the same ones.
 */
import { expect, test } from "bun:test";
import { isTestCode } from "./import-rules.ts";
import { sourceFiles } from "./source-files.ts";

const IN_STOCK = /\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomBytes\b|\brandomHex\b|\brandomInt\b/;

test.each(["guest", "mcp"])("src/%s draws random values from the kernel, by src/base/kernel-random.ts", (module) => {
  const own = sourceFiles().filter(({ path }) => path.startsWith(`src/${module}/`) && !isTestCode(path));
  expect(own.filter(({ text }) => IN_STOCK.test(text)).map(({ path }) => path)).toEqual([]);
  expect(own.some(({ text }) => /\bkernel(?:Uuid|RandomBytes)\(/.test(text))).toBe(true);
});
