/** The example in docs/mcp.md does what the page says, word for word. */
import { expect, test } from "bun:test";
import { run } from "../../../src/system/command.ts";
import { PROJECT, readText } from "../../conventions/source-files.ts";
import { printedEnv } from "../../support/programs/printed-env.ts";
import { templateServer } from "../../support/template-server.ts";

const server = templateServer("mcp-gateway");

test("the example", async () => {
  const [, example = ""] = /```ts\n(.*?)```/s.exec(readText("docs/mcp.md")) ?? [];
  const env = printedEnv(server());
  // In the project, where it finds the clients.
  const said = await run([process.execPath, "-e", example], { env, cwd: PROJECT, timeoutMs: 120_000 });
  expect(said).toBe("by MCP\n");
});
