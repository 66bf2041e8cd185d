/**
 * A stub server: lines of JSON on standard input and output, as the protocol has them, without a library that would
 * keep it from misbehaving. Its argument is a greeting that identifies it.
 */
import process from "node:process";

const [, , greeting = "hello"] = process.argv;

interface Message {
  id?: number;
  method?: string;
  params?: Record<string, unknown> & { _meta?: { progressToken?: number }; arguments?: Record<string, unknown> };
}

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

const answer = (text: unknown) => ({ content: [{ type: "text", text: String(text) }] });
const TOOLS = ["greet", "die", "end_later", "grow", "flood", "steps", "wait", "cancelled", "token", `only_${greeting}`];
const cancelled: unknown[] = [];
const levels: unknown[] = [];
let added: string[] = [];
let waiting: number | undefined;

function call(id: number | undefined, { name, arguments: given = {}, _meta }: Message["params"] & { name?: string }) {
  switch (name) {
    case "greet":
      return answer(`${greeting}, ${given.name}`);
    case "die":
      process.stderr.write(`${greeting} was told to end\n`);
      return process.exit(3);
    case "end_later":
      setTimeout(() => process.exit(4), 1);
      return answer("soon");
    case "grow":
      return answer("x".repeat(Number(given.bytes)));
    case "flood":
      for (let at = 0; at < Number(given.count); at++) {
        send({ method: "notifications/message", params: { level: "info", data: `${at}${"y".repeat(20_000)}` } });
      }
      return answer("done");
    case "steps":
      for (let progress = 1; progress <= 3; progress++) {
        send({ method: "notifications/progress", params: { progressToken: _meta?.progressToken, progress, total: 3 } });
      }
      return answer(_meta?.progressToken === undefined ? "nobody asked" : "told");
    case "wait":
      waiting = id;
      return undefined;
    case "cancelled":
      return answer(JSON.stringify({ cancelled, waiting }));
    case "token":
      return answer(process.env.GATEWAY_ACCESS_TOKEN);
    case "add_tool":
      added = ["another"];
      send({ method: "notifications/tools/list_changed" });
      return answer("added");
    case "levels":
      return answer(JSON.stringify(levels));
    case "touch":
      send({ method: "notifications/resources/updated", params: { uri: given.uri } });
      return answer("touched");
    default:
      throw new Error(`no tool ${name}`);
  }
}

function resultOf({ id, method, params = {} }: Message): object | undefined {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, logging: {} },
        serverInfo: { name: greeting, version: "1" },
        instructions: `say ${greeting}`,
      };
    case "tools/list": {
      // Two pages.
      const all = [...TOOLS, "add_tool", "levels", "touch", ...added];
      const tools = (params.cursor === undefined ? all.slice(0, 3) : all.slice(3)).map((name) => ({
        name,
        inputSchema: { type: "object" },
        "x-more": greeting,
      }));
      return params.cursor === undefined ? { tools, nextCursor: "more" } : { tools };
    }
    case "tools/call":
      return call(id, params);
    case "prompts/list":
      return { prompts: [{ name: "ask" }, { name: `ask_${greeting}` }] };
    case "prompts/get":
      return { messages: [{ role: "user", content: { type: "text", text: `${greeting}: ${params.name}` } }] };
    case "resources/list":
      return { resources: [{ uri: `stub://${greeting}/a`, name: "a" }] };
    case "resources/templates/list":
      return { resourceTemplates: [{ uriTemplate: `stub://${greeting}/more/{id}`, name: "more" }] };
    case "resources/read":
      return { contents: [{ uri: params.uri, text: greeting }] };
    case "logging/setLevel":
      levels.push(params.level);
      return {};
    case "resources/subscribe":
    case "resources/unsubscribe":
      levels.push(`${method} ${params.uri}`);
      return {};
    default:
      throw new Error(`no method ${method}`);
  }
}

process.stdout.write("this line is no message\n");
for await (const line of console) {
  const message = JSON.parse(line) as Message;
  if (message.method === "notifications/cancelled") cancelled.push(message.params?.requestId);
  if (message.id === undefined) continue;
  try {
    const result = resultOf(message);
    if (result !== undefined) send({ id: message.id, result });
  } catch (error) {
    send({ id: message.id, error: { code: -32602, message: (error as Error).message } });
  }
}
