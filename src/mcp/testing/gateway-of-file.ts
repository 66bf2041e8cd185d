/** A gateway in the test's own process, in front of stub servers that are real processes. */
import { afterAll, afterEach, beforeAll } from "bun:test";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { accessToken } from "../access-token.ts";
import type { ServerPlan } from "../config.ts";
import { FrontDoor } from "../front-door.ts";
import { Gateway } from "../gateway.ts";

const STUB = join(import.meta.dir, "stub-server.ts");
const TOKEN = "token-of-the-test";
const START_MS = 30_000;

export function stub(name: string): ServerPlan {
  return { name, argv: [process.execPath, STUB, name], variables: {} };
}

interface TestGateway {
  url: string;
  headers: { authorization: string };
  log: string[];
  connect(): Promise<Client>;
}

export function gatewayOfFile(plans: readonly ServerPlan[]): () => TestGateway {
  let running: TestGateway | undefined;
  const clients: Client[] = [];
  let close = async () => undefined as unknown;
  beforeAll(async () => {
    const log: string[] = [];
    const gateway = new Gateway(plans, undefined, (line) => log.push(line));
    await gateway.start(AbortSignal.timeout(START_MS));
    const door = new FrontDoor(gateway, accessToken(TOKEN));
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: (request) => door.handle(request),
    });
    close = async () => {
      await door.close();
      await server.stop(true);
      await gateway.close();
    };
    const url = `http://127.0.0.1:${server.port}/mcp`;
    const headers = { authorization: `Bearer ${TOKEN}` };
    const connect = async () => {
      const client = new Client({ name: "test", version: "1" });
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
      clients.push(client);
      return client;
    };
    running = { url, headers, log, connect };
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  afterAll(() => close());
  return () => {
    if (running === undefined) throw new Error("the gateway runs only while tests do");
    return running;
  };
}

export async function callText(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = (await client.callTool({ name, arguments: args })) as CallToolResult;
  return content.map((part) => (part.type === "text" ? part.text : part.type)).join();
}

/** A session without a client library: what the test does not read stays unread. */
export async function rawSession({ url, headers }: TestGateway) {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  const own: Record<string, string> = {
    ...headers,
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
  };
  const opened = await fetch(url, { method: "POST", headers: own, body });
  await opened.text();
  own["mcp-session-id"] = opened.headers.get("mcp-session-id") ?? "";
  return {
    id: own["mcp-session-id"],
    send: (method: string, message?: object) =>
      fetch(url, { method, headers: own, ...(message === undefined ? {} : { body: JSON.stringify(message) }) }),
  };
}
