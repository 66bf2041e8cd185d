/** The official MCP client at the URL from the SDK, for a server whose name this machine cannot resolve. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { Sandbox } from "e2b";
import type { TestServer } from "../server.ts";

export async function mcpClient(
  server: TestServer,
  sandbox: Sandbox,
  more: Record<string, string> = {},
): Promise<Client> {
  const headers = { authorization: `Bearer ${await sandbox.getMcpToken()}`, ...more };
  const client = new Client({ name: "test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(sandbox.getMcpUrl()), {
    fetch: (url, init) => fetchMcp(server, url, init),
    requestInit: { headers },
  });
  await client.connect(transport);
  return client;
}

/** Sends the client's request to the server that answers for all names. */
export function fetchMcp({ url }: TestServer, to: string | URL, init: RequestInit = {}): Promise<Response> {
  const { host, pathname } = new URL(to);
  const headers = new Headers(init.headers);
  headers.set("host", host);
  return fetch(new URL(pathname, url), { ...init, headers });
}

export async function callText(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = (await client.callTool({ name, arguments: args })) as CallToolResult;
  return content.map((part) => (part.type === "text" ? part.text : part.type)).join();
}
