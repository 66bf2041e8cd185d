/** `mcp-gateway` by hand: repositories, another configuration, names for templates, and its end. */
import { beforeAll, expect, test } from "bun:test";
import { CommandExitError, Sandbox } from "e2b";
import { LONG } from "../../../src/base/testing/long.ts";
import { CATALOGUE } from "../../../src/mcp/catalogue.ts";
import { callText, fetchMcp, mcpClient } from "../../support/mcp/client.ts";
import { templateServer } from "../../support/template-server.ts";
import { until } from "../../support/until.ts";

const server = templateServer("mcp-gateway");
const TRAFFIC = "e2b-traffic-access-token";

let sandbox: Sandbox;
beforeAll(async () => {
  const network = { allowPublicTraffic: false };
  const options = { ...server().options, network, allowInternetAccess: false, timeoutMs: 600_000 };
  sandbox = await Sandbox.create("mcp-gateway", options);
});

const asRoot = (command: string) =>
  sandbox.commands.run(command, { user: "root", envs: { GATEWAY_ACCESS_TOKEN: "by-hand" } });
const serve = (config: object) => asRoot(`mcp-gateway --config '${JSON.stringify(config)}'`);
const connect = () => mcpClient(server(), sandbox, { [TRAFFIC]: sandbox.trafficAccessToken ?? "" });

async function failure(run: Promise<unknown>): Promise<CommandExitError> {
  const error = await run.then(
    () => undefined,
    (thrown) => thrown,
  );
  if (!(error instanceof CommandExitError)) throw new Error(`should have failed with an exit code: ${error}`);
  return error;
}

test("a private sandbox also needs its traffic token", async () => {
  await serve({ memory: {} });
  const client = await connect();
  expect((await client.listTools()).tools.length).toBeGreaterThan(0);
  await client.close();
  const headers = { authorization: "Bearer by-hand" };
  const response = await fetchMcp(server(), sandbox.getMcpUrl(), { method: "POST", headers, body: "{}" });
  expect(response.status).toBe(403);
});

test("a new configuration replaces the earlier one unless it fails", async () => {
  await serve({ memory: {} });
  expect((await failure(serve({ filesystem: { paths: ["/nowhere"] } }))).exitCode).toBe(1);
  const before = await connect();
  expect((await before.listTools()).tools.map(({ name }) => name)).toContain("read_graph");
  await before.close();
  await serve({ sequentialthinking: {} });
  const after = await connect();
  expect((await after.listTools()).tools.map(({ name }) => name)).toEqual(["sequentialthinking"]);
  await after.close();
});

/** A server with one tool, whose result holds what the test checks. */
const REPOSITORY_SERVER = `
const { Server } = require("/opt/mcp/node_modules/@modelcontextprotocol/sdk/dist/cjs/server/index.js");
const { StdioServerTransport } = require("/opt/mcp/node_modules/@modelcontextprotocol/sdk/dist/cjs/server/stdio.js");
const types = require("/opt/mcp/node_modules/@modelcontextprotocol/sdk/dist/cjs/types.js");
const server = new Server({ name: "own", version: "1" }, { capabilities: { tools: {} } });
server.setRequestHandler(types.ListToolsRequestSchema, () => ({
  tools: [{ name: "look", inputSchema: { type: "object" } }],
}));
server.setRequestHandler(types.CallToolRequestSchema, () => {
  const installed = require("node:fs").readFileSync("installed", "utf8").trim();
  const said = [process.cwd(), installed, process.env.WORD, require("node:os").userInfo().username].join(" ");
  return { content: [{ type: "text", text: said }] };
});
server.connect(new StdioServerTransport());
`;

test("a repository is cloned, installed and run in its root, with its variables", async () => {
  await sandbox.files.write("/srv/git/own/repo/server.js", REPOSITORY_SERVER, { user: "root" });
  await asRoot(`cd /srv/git/own/repo && git init -q && git add . &&
    git -c user.name=x -c user.email=x@x.test commit -qm x &&
    git config --system url.file:///srv/git/.insteadOf https://github.com/ &&
    git config --system safe.directory '*'`);
  const settings = { runCmd: "node server.js", installCmd: "echo $WORD > installed", envs: { WORD: "given" } };
  await serve({ "github/own/repo": settings });
  const client = await connect();
  expect(await callText(client, "look")).toBe("/var/lib/mcp-gateway/repositories/own/repo given given user");
  await client.close();
  const failed = await failure(serve({ "github/own/repo": { runCmd: "true", installCmd: "echo no >&2; false" } }));
  expect(failed.stderr).toBe("https://github.com/own/repo: its installCmd failed: no (exit code 1)\n");
});

test("a repository that cannot be cloned is an error with git's message", async () => {
  await asRoot("git config --system --unset-all url.file:///srv/git/.insteadOf || true");
  const { stderr, exitCode } = await failure(serve({ "github/no/repo": { runCmd: "true" } }));
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("https://github.com/no/repo cannot be cloned; ")]);
});

test("pull accepts served names and rejects others", async () => {
  const { stdout } = await asRoot("mcp-gateway pull memory filesystem");
  expect(stdout).toBe(
    "memory: @modelcontextprotocol/server-memory\nfilesystem: @modelcontextprotocol/server-filesystem\n",
  );
  await asRoot(`mcp-gateway pull ${Object.keys(CATALOGUE).join(" ")}`);
  const { stderr } = await failure(asRoot("mcp-gateway pull memory puppeteer"));
  expect(stderr).toStartWith('"puppeteer" cannot be served: it needs a browser');
});

test("without root, token or arguments, mcp-gateway names what is missing", async () => {
  expect((await failure(sandbox.commands.run("mcp-gateway --config '{}'"))).stderr).toContain("run by root");
  const noToken = sandbox.commands.run(`mcp-gateway --config '{"memory":{}}'`, { user: "root" });
  expect((await failure(noToken)).stderr).toContain("GATEWAY_ACCESS_TOKEN is not set");
  expect((await failure(asRoot("mcp-gateway"))).stderr).toStartWith("Usage:");
});

test("servers end with the gateway, also when it is killed", async () => {
  await serve({ memory: {} });
  const servers = async () => (await asRoot("pgrep -fc [s]erver-memory/dist || true")).stdout.trim();
  expect(await servers()).toBe("1");
  await asRoot("kill -9 $(cat /run/mcp-gateway.pid)");
  await until("the server has ended", async () => (await servers()) === "0");
});

const ANY_VALUE = { text: "x", number: 1, paths: ["/home/user"] };

test.if(LONG).each(Object.keys(CATALOGUE).filter((name) => name !== "stripe"))(
  "%s starts without a network, and has tools",
  async (name) => {
    const settings = Object.entries(CATALOGUE[name]?.settings ?? {});
    await serve({ [name]: Object.fromEntries(settings.map(([key, { type }]) => [key, ANY_VALUE[type]])) });
    const client = await connect();
    expect((await client.listTools()).tools.length).toBeGreaterThan(0);
    await client.close();
  },
);
