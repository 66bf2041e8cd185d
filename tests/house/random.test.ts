/** The guest is copied while it runs: random numbers that it has in stock would be the same in every copy. */
import { expect, test } from "bun:test";
import { isTestCode } from "./import-rules.ts";
import { sourceFiles } from "./source-files.ts";

const IN_STOCK = /\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomBytes\b|\brandomInt\b/;

test("the guest draws random values from the kernel, by src/guest/system/kernel-random.ts", () => {
  const guest = sourceFiles().filter(({ path }) => path.startsWith("src/guest/") && !isTestCode(path));
  expect(guest.filter(({ text }) => IN_STOCK.test(text)).map(({ path }) => path)).toEqual([]);
  expect(guest.filter(({ text }) => /\bkernel(?:Uuid|Bytes)\(/.test(text)).length).toBeGreaterThan(3);
});
