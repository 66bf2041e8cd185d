// MCP servers in a sandbox, called by the official client of MCP: an agent's tools, away from your files.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Sandbox } from "e2b";

const sandbox = await Sandbox.create({ mcp: { filesystem: { paths: ["/home/user"] } } });
try {
  // On a server with a domain: new URL(sandbox.getMcpUrl()), and the token alone.
  const url = new URL("/mcp", process.env.E2B_SANDBOX_URL);
  const headers = {
    Authorization: `Bearer ${await sandbox.getMcpToken()}`,
    "E2b-Sandbox-Id": sandbox.sandboxId,
    "E2b-Sandbox-Port": "50005",
  };
  const client = new Client({ name: "example", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));

  const { tools } = await client.listTools();
  console.log(
    `tools: ${tools
      .map(({ name }) => name)
      .filter((name) => name.endsWith("_file"))
      .join(", ")}`,
  );

  // What a model would call. The file is in the sandbox, for everything else that runs there.
  await client.callTool({ name: "write_file", arguments: { path: "/home/user/list.txt", content: "tea\nmilk\n" } });
  const { stdout } = await sandbox.commands.run("sort list.txt | tr '\\n' ' '");
  console.log(`sorted: ${stdout}`);
  await client.close();
} finally {
  await sandbox.kill();
}
