/** The example in docs/mcp.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { printedBy, typeScriptIn } from "../../support/programs/example.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("mcp-gateway");
const [example = ""] = typeScriptIn("docs/mcp.md");

test("the example prints what the page says", async () => {
  expect(await printedBy(example, server())).toBe("by MCP\n");
});
