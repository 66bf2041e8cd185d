/** The examples in docs/network.md print what the page says. */
import { expect, test } from "bun:test";
import { printedBy, typeScriptIn } from "../../support/programs/example.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();
const [rules = "", privately = ""] = typeScriptIn("docs/network.md");

test("the example of rules by name and by address, and of their change, prints what the page says", async () => {
  expect(await printedBy(rules, server())).toBe("200 200 000\n200 000 200\n");
});

test("the example of a private sandbox prints what the page says", async () => {
  expect(await printedBy(privately, server())).toBe("403\nfor friends\n\n");
});
