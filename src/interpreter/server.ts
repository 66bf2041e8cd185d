/** The HTTP interface for clients of the code interpreter. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Fault } from "../contract/fault.ts";
import type { Context } from "./context.ts";
import type { Contexts } from "./contexts.ts";
import { ExecutionStream } from "./execution-stream.ts";
import { logFailure } from "./log.ts";
import { bodyOf, CONTEXT, EXECUTION, InvalidFields } from "./requests.ts";

/** Idle timeout of connections, as long as clients expect. */
const CONNECTION_IDLE_MS = 640_000;

const CORS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
  "Access-Control-Allow-Headers": "*",
  "Access-Control-Max-Age": "600",
};
const TEXT = Object.assign({ "Content-Type": "text/plain; charset=utf-8" }, CORS);
const JSON_HEADERS = Object.assign({ "Content-Type": "application/json" }, CORS);
const STREAM = Object.assign({ "Content-Type": "application/x-ndjson", "Cache-Control": "no-store" }, CORS);

/** Undefined: the response is already sent. */
type Handler = (request: IncomingMessage, response: ServerResponse, id: string) => Promise<unknown>;

export function interpreterServer(contexts: Contexts): Server {
  const routes: [method: string, path: RegExp, handler: Handler][] = [
    ["GET", /^\/health$/, async () => "OK"],
    ["POST", /^\/execute$/, (request, response) => execute(contexts, request, response)],
    ["GET", /^\/contexts$/, async () => contexts.all().map(shown)],
    ["POST", /^\/contexts$/, (request) => create(contexts, request)],
    ["POST", /^\/contexts\/([^/]+)\/restart$/, (_, __, id) => restart(contexts, id)],
    ["DELETE", /^\/contexts\/([^/]+)$/, (_, __, id) => remove(contexts, id)],
  ];
  const server = createServer((request, response) => {
    void route(routes, request, response).catch((error: unknown) => {
      logFailure("request", error);
      response.destroy();
    });
  });
  server.keepAliveTimeout = CONNECTION_IDLE_MS;
  server.requestTimeout = 0;
  return server;
}

async function route(
  routes: readonly [string, RegExp, Handler][],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method === "OPTIONS") return preflight(request, response);
  const path = (request.url ?? "/").replace(/\?.*$/s, "");
  const there = routes.filter(([, pattern]) => pattern.test(path));
  const method = request.method === "HEAD" ? "GET" : request.method;
  const found = there.find(([known]) => known === method);
  if (found === undefined) {
    const detail = there.length === 0 ? "Not Found" : "Method Not Allowed";
    return respond(response, there.length === 0 ? 404 : 405, JSON_HEADERS, JSON.stringify({ detail }));
  }
  const [, pattern, handler] = found;
  try {
    const value = await handler(request, response, decoded(pattern.exec(path)?.[1] ?? ""));
    if (value !== undefined) respond(response, 200, JSON_HEADERS, JSON.stringify(value));
  } catch (error) {
    if (error instanceof InvalidFields)
      return respond(response, 422, JSON_HEADERS, JSON.stringify({ detail: error.detail }));
    const fault = Fault.from(error);
    if (fault !== error) logFailure("request", error);
    respond(response, fault.status, TEXT, fault.message);
  }
}

function respond(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  response.writeHead(status, headers).end(body);
}

/** Allows every origin, method and header, without credentials. */
function preflight(request: IncomingMessage, response: ServerResponse): void {
  const requested = request.headers["access-control-request-headers"];
  const own = requested === undefined ? {} : { "Access-Control-Allow-Headers": requested };
  respond(response, 200, { ...TEXT, ...own }, "OK");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function shown({ id, language, folder }: Context) {
  return { id, language: language.name, cwd: folder };
}

async function execute(contexts: Contexts, request: IncomingMessage, response: ServerResponse): Promise<undefined> {
  const { code, context_id: id, language, env_vars: variables } = await bodyOf(request, EXECUTION);
  if (id && language) {
    throw new Fault(400, "context_id and language cannot be given together: a context has its language");
  }
  const context = id ? contexts.byId(id) : await contexts.defaultOf(language);
  context.requirePlace();
  const token = request.headers["x-access-token"];
  const accessToken = typeof token === "string" ? token : undefined;
  context.execute({ code, variables: variables ?? {}, accessToken }, new ExecutionStream(response, STREAM));
}

async function create(contexts: Contexts, request: IncomingMessage) {
  const { language, cwd } = await bodyOf(request, CONTEXT);
  return shown(await contexts.create(language, cwd));
}

async function restart(contexts: Contexts, id: string): Promise<null> {
  await contexts.byId(id).restart();
  return null;
}

async function remove(contexts: Contexts, id: string): Promise<null> {
  await contexts.remove(id);
  return null;
}
