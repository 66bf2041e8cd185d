/** A user's template on `mcp-gateway`: the build adds servers by name. */
import { expect, test } from "bun:test";
import { Sandbox, Template } from "e2b";
import { callText, mcpClient } from "../../support/mcp/client.ts";
import { templateServer } from "../../support/template-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = templateServer("mcp-gateway");

test("sandboxes of a template with addMcpServer serve the added servers and have its other files", async () => {
  const template = Template()
    .fromTemplate("mcp-gateway")
    .addMcpServer(["memory", "filesystem"])
    .runCmd("echo from the template > note.txt");
  await Template.build(template, "with-servers", server().options);
  const mcp = { filesystem: { paths: ["/home/user"] } };
  const sandbox = await Sandbox.create("with-servers", { ...server().options, mcp });
  const client = await mcpClient(server(), sandbox);
  expect(await callText(client, "read_text_file", { path: "/home/user/note.txt" })).toBe("from the template\n");
  await client.close();
});

test("an unknown server name fails the build, and the error lists the known ones", async () => {
  const template = Template().fromTemplate("mcp-gateway").addMcpServer("grafana");
  const lines: string[] = [];
  const onBuildLogs = ({ message }: { message: string }) => lines.push(message);
  await refusalOf(Template.build(template, "without-servers", { ...server().options, onBuildLogs }));
  expect(lines.join("\n")).toContain('"grafana" cannot be served: no server of this name is in this template');
});
