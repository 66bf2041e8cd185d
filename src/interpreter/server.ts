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
type Handler = (request: IncomingMessage, answer: ServerResponse, id: string) => Promise<unknown>;

export function interpreterServer(contexts: Contexts): Server {
  const routes: [method: string, path: RegExp, handler: Handler][] = [
    ["GET", /^\/health$/, async () => "OK"],
    ["POST", /^\/execute$/, (request, answer) => execute(contexts, request, answer)],
    ["GET", /^\/contexts$/, async () => contexts.all().map(shown)],
    ["POST", /^\/contexts$/, (request) => create(contexts, request)],
    ["POST", /^\/contexts\/([^/]+)\/restart$/, (_, __, id) => restart(contexts, id)],
    ["DELETE", /^\/contexts\/([^/]+)$/, (_, __, id) => remove(contexts, id)],
  ];
  const server = createServer((request, answer) => {
    void answerTo(routes, request, answer).catch((error: unknown) => {
      logFailure("request", error);
      answer.destroy();
    });
  });
  server.keepAliveTimeout = CONNECTION_IDLE_MS;
  server.requestTimeout = 0;
  return server;
}

async function answerTo(
  routes: readonly [string, RegExp, Handler][],
  request: IncomingMessage,
  answer: ServerResponse,
): Promise<void> {
  if (request.method === "OPTIONS") return preflight(request, answer);
  const path = (request.url ?? "/").replace(/\?.*$/s, "");
  const there = routes.filter(([, pattern]) => pattern.test(path));
  const method = request.method === "HEAD" ? "GET" : request.method;
  const route = there.find(([known]) => known === method);
  if (route === undefined) {
    const detail = there.length === 0 ? "Not Found" : "Method Not Allowed";
    return say(answer, there.length === 0 ? 404 : 405, JSON_HEADERS, JSON.stringify({ detail }));
  }
  const [, pattern, handler] = route;
  try {
    const value = await handler(request, answer, decoded(pattern.exec(path)?.[1] ?? ""));
    if (value !== undefined) say(answer, 200, JSON_HEADERS, JSON.stringify(value));
  } catch (error) {
    if (error instanceof InvalidFields) return say(answer, 422, JSON_HEADERS, JSON.stringify({ detail: error.detail }));
    const fault = Fault.from(error);
    if (fault !== error) logFailure("request", error);
    say(answer, fault.status, TEXT, fault.message);
  }
}

function say(answer: ServerResponse, status: number, headers: Readonly<Record<string, string>>, body: string): void {
  answer.writeHead(status, headers).end(body);
}

/** Allows every origin, method and header, without credentials. */
function preflight(request: IncomingMessage, answer: ServerResponse): void {
  const asked = request.headers["access-control-request-headers"];
  const own = asked === undefined ? {} : { "Access-Control-Allow-Headers": asked };
  say(answer, 200, Object.assign({}, TEXT, own), "OK");
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

async function execute(contexts: Contexts, request: IncomingMessage, answer: ServerResponse): Promise<undefined> {
  const { code, context_id: id, language, env_vars: variables } = await bodyOf(request, EXECUTION);
  if (id && language) {
    throw new Fault(400, "context_id and language cannot be given together: a context has its language");
  }
  const context = id ? contexts.byId(id) : await contexts.defaultOf(language);
  context.requirePlace();
  const token = request.headers["x-access-token"];
  const accessToken = typeof token === "string" ? token : undefined;
  context.execute({ code, variables: variables ?? {}, accessToken }, new ExecutionStream(answer, STREAM));
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
