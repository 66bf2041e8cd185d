/** The SDK's option `mcp`, and the official MCP client at the URL it returns. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { Sandbox } from "e2b";
import { callText, mcpClient } from "../../support/mcp/client.ts";
import { templateServer } from "../../support/template-server.ts";
import { refusalOf } from "../../support/until.ts";

const server = templateServer("mcp-gateway");
const MCP = { filesystem: { paths: ["/home/user"] }, memory: {} };

let sandbox: Sandbox;
let client: Client;
beforeAll(async () => {
  sandbox = await Sandbox.create({ ...server().options, mcp: MCP, timeoutMs: 600_000 });
  client = await mcpClient(server(), sandbox);
});
afterAll(() => client.close());

test("the tools of all servers are listed", async () => {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  expect(names).toContain("write_file");
  expect(names).toContain("create_entities");
});

test("tools can be called, and run as the user of commands", async () => {
  await callText(client, "write_file", { path: "/home/user/note.txt", content: "by MCP" });
  expect(await sandbox.files.read("note.txt")).toBe("by MCP");
  expect((await sandbox.commands.run("stat -c %U note.txt")).stdout).toBe("user\n");
  const outside = await callText(client, "read_text_file", { path: "/etc/passwd" });
  expect(outside).toContain("Access denied - path outside allowed directories");
  const entity = { name: "Ada", entityType: "person", observations: ["writes programs"] };
  await callText(client, "create_entities", { entities: [entity] });
  expect(await callText(client, "search_nodes", { query: "Ada" })).toContain("writes programs");
});

test("later clients read the token from a file that belongs to root", async () => {
  const later = await Sandbox.connect(sandbox.sandboxId, server().options);
  expect(await later.getMcpToken()).toBe((await sandbox.getMcpToken()) as string);
  const { stdout } = await sandbox.commands.run("stat -c '%U %a %s' /etc/mcp-gateway/.token", { user: "root" });
  expect(stdout).toBe(`root 600 ${(await sandbox.getMcpToken())?.length}\n`);
});

test("arguments and environment of running processes contain neither token nor settings", async () => {
  const token = (await sandbox.getMcpToken()) ?? "none";
  const { stdout } = await sandbox.commands.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'");
  expect(stdout).toContain("mcp-gateway.js");
  expect(stdout).not.toContain(token);
});

test("pause and resume keep the gateway, its servers and the session", async () => {
  await callText(client, "create_entities", {
    entities: [{ name: "before", entityType: "moment", observations: ["paused"] }],
  });
  await sandbox.pause();
  await Sandbox.connect(sandbox.sandboxId, server().options);
  expect(await callText(client, "search_nodes", { query: "before" })).toContain("paused");
});

test("a fork has its own gateway with the same token", async () => {
  const [entry] = await sandbox.fork({ timeoutMs: 120_000 });
  if (!(entry instanceof Sandbox)) throw new Error(`no fork: ${Bun.inspect(entry)}`);
  expect(await entry.getMcpToken()).toBe((await sandbox.getMcpToken()) as string);
  const inFork = await mcpClient(server(), entry);
  await callText(inFork, "write_file", { path: "/home/user/fork.txt", content: "only here" });
  await inFork.close();
  expect(await entry.files.read("fork.txt")).toBe("only here");
  expect(await sandbox.files.exists("fork.txt")).toBe(false);
  await entry.kill();
});

describe("when it cannot start, the client says why and the sandbox is gone:", () => {
  const runningIds = async () => (await Sandbox.list(server().options).nextItems()).map(({ sandboxId }) => sandboxId);

  test.each<[string, Record<string, unknown>, RegExp]>([
    [
      "a server that does not start",
      { filesystem: { paths: ["/nowhere"] } },
      /^Failed to start MCP gateway: the server filesystem does not start: .*Cannot access directory \/nowhere/s,
    ],
  ])("%s", async (_, mcp, message) => {
    const error = await refusalOf(Sandbox.create({ ...server().options, mcp }));
    expect(error.message).toMatch(message);
    expect(await runningIds()).toEqual([sandbox.sandboxId]);
  });

  test("a template without the command", async () => {
    const error = await refusalOf(Sandbox.create("base", { ...server().options, mcp: MCP }));
    expect(error.message).toMatch(/^Failed to start MCP gateway: .*mcp-gateway: command not found/);
  });
});
