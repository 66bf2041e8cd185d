/**
 * Turns a Request into a Response: finds the route, authenticates the caller, reads the body, runs the route, and
 * writes its response or error. Every response of the management API leaves through here, with its request id and
 * log line. This folder knows no particular route and nothing about sandboxes.
 */
import { Hono } from "hono";
import type { Clock } from "../../base/clock.ts";
import { inRequest } from "../../base/current-request.ts";
import { masked } from "../../base/log.ts";
import { recordsAnySteps, step } from "../../base/steps.ts";
import { Fault } from "../../contract/fault.ts";
import { requestIdIn } from "../../contract/request-id.ts";
import { parseTraceparent, TRACEPARENT_HEADER } from "../../contract/trace-context.ts";
import type { Client } from "../access/authentication.ts";
import type { BodyShare } from "../budgets/body-budgets.ts";
import { type Allowance, ownerOf, requestKindOf } from "../budgets/request-rates.ts";
import type { Parts } from "../parts.ts";
import { type CallerOptions, callerOf, notReady } from "./caller.ts";
import { levelOf, reasonFor } from "./log-entry.ts";
import type { Page } from "./page.ts";
import { audit, originOf, type RequestAudit } from "./request-audit.ts";
import { readJson, uploadOf } from "./request-body.ts";
import { paramsOf, rawPath, searchOf, shortened } from "./request-url.ts";
import type { Route, RouteResult } from "./route.ts";
import { baseOf } from "./server-address.ts";

export const REQUEST_BODY_MAX_BYTES = 1024 * 1024;

/** State of one request. */
interface Exchange {
  id: string;
  client: Client | undefined;
  /** `METHOD /path` of the matching endpoint. */
  route: string | undefined;
  isPage: boolean;
  noStore: boolean;
  /** The rest of the caller's budget. */
  allowance: Allowance | undefined;
  team: string | undefined;
  fault: Fault | undefined;
}

const ALLOWED_HEADERS =
  "Origin, Accept, Content-Type, Authorization, X-API-Key, X-Team-ID, X-Request-Id, Idempotency-Key, User-Agent, browser, lang, " +
  "lang_version, package_version, publisher, sdk_runtime, system";
const EXPOSED_HEADERS =
  "X-Next-Token, X-Total-Running, X-Request-Id, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, " +
  "Idempotent-Replayed";

/** Owner of the bodies of requests without a key. */
const UNAUTHENTICATED = { id: "", name: "all who send no key" };

interface DispatchOptions<S> extends Pick<Parts, "ids" | "log">, CallerOptions {
  routes: readonly Route<S>[];
  /** Known routes that will never be built, as `METHOD /path`, with the alternative. */
  absent: Readonly<Record<string, string>>;
  services: S;
  /** Pages for browsers, beside the API. */
  pages: readonly Page[];
  audit: RequestAudit;
  publicUrl?: string | undefined;
  /** Resolves once the changes of the request are recorded. */
  recorded(): Promise<void>;
}

/** Without a client, requests without a key are not counted. */
type Dispatch = (request: Request, client?: Client) => Promise<Response>;

export function createDispatch<S>(options: DispatchOptions<S>): Dispatch {
  const { clock, ids, log } = options;
  const app = routerFor(options);

  async function respond(request: Request, client: Client | undefined, id: string): Promise<Response> {
    const exchange: Exchange = {
      id,
      client,
      route: undefined,
      isPage: false,
      noStore: false,
      allowance: undefined,
      team: undefined,
      fault: undefined,
    };
    const startedAt = clock.now();
    const response = request.method === "OPTIONS" ? preflight() : await fetchFrom(app, request, exchange);
    for (const [name, value] of Object.entries(exchange.allowance ?? {})) response.headers.set(name, value);
    response.headers.set("X-Request-Id", exchange.id);
    if (exchange.noStore) response.headers.set("Cache-Control", "no-store");
    if (!exchange.isPage) {
      response.headers.set("Access-Control-Allow-Origin", "*");
      response.headers.set("Access-Control-Expose-Headers", EXPOSED_HEADERS);
    }
    log.write({
      level: levelOf(response.status),
      event: "request",
      request: exchange.id,
      method: request.method,
      path: shortened(rawPath(request)),
      route: exchange.route,
      status: response.status,
      ms: clock.now() - startedAt,
      team: exchange.team,
      error: exchange.fault && reasonFor(exchange.fault),
    });
    return response;
  }

  return (request, client) => {
    const id = requestIdIn(request.headers) ?? ids.requestId();
    const trace = recordsAnySteps() ? parseTraceparent(request.headers.get(TRACEPARENT_HEADER)) : undefined;
    return inRequest({ id, trace }, () => respond(request, client, id));
  };
}

/** Finds the route or page of a request. Paths that no method serves are refused, at the cost of a budget. */
function routerFor<S>(options: DispatchOptions<S>): Hono<{ Bindings: Exchange }> {
  const { routes, budgets } = options;
  const app = new Hono<{ Bindings: Exchange }>({ getPath: rawPath });
  for (const { name, noStore, answer } of mostLiteralFirst(options)) {
    const [method = "", path = ""] = name.split(" ");
    app.on(method, patternOf(path), async (c) => {
      c.env.route = name;
      c.env.noStore = noStore;
      return write(await step(name, () => answer(c.req.raw, c.env)));
    });
  }
  for (const page of options.pages) {
    app.on(page.method, page.path, async (c) => {
      c.env.route = `${page.method} ${page.path}`;
      c.env.isPage = true;
      try {
        return await servePage(page, c.req.raw, options, c.env);
      } catch (error) {
        c.env.fault = Fault.from(error);
        return await page.refuse(c.env.fault);
      }
    });
  }
  for (const [path, methods] of methodsByPath([...options.pages, ...routes])) {
    app.all(patternOf(path), (c) => {
      budgets.takeUnauthenticated(c.env.client?.address);
      throw wrongMethod(c.req.method, path, methods);
    });
  }
  app.notFound((c) => {
    budgets.takeUnauthenticated(c.env.client?.address);
    const target = masked(shortened(c.req.path));
    throw new Fault(404, `there is no ${c.req.method} ${target} on this server; see /openapi.json`);
  });
  app.onError((error, c) => writeError(error, c.env));
  return app;
}

interface Endpoint {
  /** `METHOD /path` */
  name: string;
  noStore: boolean;
  answer(request: Request, exchange: Exchange): Promise<RouteResult>;
}

/** A path of an endpoint in the router's notation. */
function patternOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

/** Endpoints in matching order, so that `/templates/tags` is not read as the id of a template. */
function mostLiteralFirst<S>(options: DispatchOptions<S>): Endpoint[] {
  const { routes, absent } = options;
  const refused = (name: string, why: string): Endpoint => ({
    name,
    noStore: false,
    answer: () => Promise.reject(new Fault(501, `${name} is ${why}`)),
  });
  const endpoints = [
    ...Object.entries(absent).map(([name, instead]) =>
      refused(name, `not part of this server, which is a single machine: ${instead}`),
    ),
    ...routes.map(
      (route): Endpoint => ({
        name: `${route.method} ${route.path}`,
        noStore: route.noStore === true,
        answer: (request, exchange) => serve(route, request, options, exchange),
      }),
    ),
  ];
  // One digit per segment: 0 for a literal, 1 for a parameter.
  const rank = ({ name }: Endpoint) =>
    name
      .split("/")
      .map((segment) => (segment.startsWith("{") ? 1 : 0))
      .join("");
  return endpoints.sort((a, b) => Number(rank(a) > rank(b)) - Number(rank(a) < rank(b)));
}

async function fetchFrom(app: Hono<{ Bindings: Exchange }>, request: Request, exchange: Exchange): Promise<Response> {
  try {
    return await app.fetch(request, exchange);
  } catch (error) {
    return writeError(error, exchange);
  }
}

async function servePage<S>(
  page: Page,
  request: Request,
  { budgets, isReady, publicUrl }: DispatchOptions<S>,
  { id: requestId, client }: Exchange,
): Promise<Response> {
  budgets.takeUnauthenticated(client?.address);
  if (!isReady()) throw notReady();
  return await page.answer(request, {
    base: publicUrl ?? baseOf(request, client),
    address: client?.address,
    requestId,
  });
}

async function serve<S>(
  route: Route<S>,
  request: Request,
  options: DispatchOptions<S>,
  exchange: Exchange,
): Promise<RouteResult> {
  const caller = await callerOf(route.auth, request.headers, exchange.client, options);
  if (caller && "team" in caller) exchange.team = caller.team.slug;
  const owner = caller && ownerOf(caller);
  if (owner) exchange.allowance = options.budgets.take(owner, requestKindOf(route.method, route.auth));
  using share = options.budgets.bodies.begin(owner ?? UNAUTHENTICATED);
  const params = paramsOf(route, request);
  const origin = originOf(route, caller, exchange);
  let answer: RouteResult;
  try {
    answer = await route.run(
      {
        params,
        search: searchOf(request),
        headers: request.headers,
        json: route.body && (await readJson(request, bodyTerms(route.body, share, options.clock))),
        caller,
        origin,
        upload: uploadOf(request),
        base: options.publicUrl ?? baseOf(request, exchange.client),
      },
      options.services,
    );
  } catch (error) {
    const fault = Fault.from(error);
    audit(route, { caller, origin, params }, { status: fault.status }, options.audit);
    await route.refused?.({ params, caller, fault }, options.services);
    throw error;
  }
  audit(route, { caller, origin, params }, answer, options.audit);
  // A HEAD response has no body, so its stream is not read.
  if (request.method === "HEAD") await answer.stream?.cancel();
  if (route.method !== "GET") await options.recorded();
  return answer;
}

function bodyTerms({ maxBytes = REQUEST_BODY_MAX_BYTES }: { maxBytes?: number }, share: BodyShare, clock: Clock) {
  return { maxBytes, clock, take: (bytes: number) => share.grow(bytes) };
}

function wrongMethod(method: string, path: string, methods: readonly string[]): Fault {
  const allow = [...methods, "OPTIONS"].join(", ");
  return new Fault(405, `${method} is not possible on ${path}; it takes ${allow}`, { headers: { Allow: allow } });
}

function methodsByPath(routes: readonly { method: string; path: string }[]): Map<string, string[]> {
  const methods = new Map<string, string[]>();
  for (const { method, path } of routes) {
    methods.set(path, [...(methods.get(path) ?? []), ...(method === "GET" ? ["GET", "HEAD"] : [method])]);
  }
  return methods;
}

function write({ status, body, stream, headers }: RouteResult): Response {
  if (stream !== undefined) {
    return new Response(stream, { status, headers: { "Content-Type": "application/octet-stream", ...headers } });
  }
  if (body !== undefined) return Response.json(body, { status, headers: headers ?? {} });
  // Clients parse a success without this header as JSON, even if it is empty.
  const empty: Record<string, string> = status === 204 ? {} : { "Content-Length": "0" };
  return new Response(null, { status, headers: { ...headers, ...empty } });
}

/** The only place where an error becomes a response. */
function writeError(error: unknown, exchange: Exchange): Response {
  const fault = Fault.from(error);
  exchange.fault = fault;
  const body = fault.toBody();
  // A client may have put a key where a name belongs.
  const shown = { ...body, message: masked(body.message) };
  return Response.json(shown, { status: fault.status, headers: { ...fault.headers } });
}

function preflight(): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
      "Access-Control-Allow-Headers": ALLOWED_HEADERS,
      "Access-Control-Max-Age": "600",
    },
  });
}
