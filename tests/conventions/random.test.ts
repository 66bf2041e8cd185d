/**
 * The guest and the MCP gateway are copied while they run, so they must not keep random numbers in stock: every copy
 * would have the same ones.
 */
import { expect, test } from "bun:test";
import { isTestCode } from "./import-rules.ts";
import { sourceFiles } from "./source-files.ts";

const IN_STOCK = /\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomBytes\b|\brandomInt\b/;

test("the gateway of MCP draws random values from the kernel, by src/mcp/kernel-random.ts", () => {
  const gateway = sourceFiles().filter(({ path }) => path.startsWith("src/mcp/") && !isTestCode(path));
  expect(gateway.filter(({ text }) => IN_STOCK.test(text)).map(({ path }) => path)).toEqual([]);
  expect(gateway.filter(({ text }) => /\bkernelHex\(/.test(text)).length).toBe(2);
});

test("the guest draws random values from the kernel, by src/guest/system/kernel-random.ts", () => {
  const guest = sourceFiles().filter(({ path }) => path.startsWith("src/guest/") && !isTestCode(path));
  expect(guest.filter(({ text }) => IN_STOCK.test(text)).map(({ path }) => path)).toEqual([]);
  expect(guest.filter(({ text }) => /\bkernel(?:Uuid|Bytes)\(/.test(text)).length).toBeGreaterThan(3);
});
