import { expect, test } from "bun:test";
import { runExample } from "../../support/programs/example.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("mcp-gateway");

test("examples/mcp.mjs lists tools of an MCP server in a sandbox, and calls one", async () => {
  const [tools, sorted] = await runExample("mcp.mjs", server());
  expect(tools).toContain("write_file");
  expect(sorted).toBe("sorted: milk tea");
});
