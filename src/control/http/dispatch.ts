/**
 * Turns a Request into a Response: finds the route, authenticates the caller, reads the body, runs the route, and
 * writes its response or error. Every response of the management API leaves through here, with its request id and
 * log line. This folder knows no particular route and nothing about sandboxes.
 */
import { Hono } from "hono";
import type { Clock } from "../../base/clock.ts";
import { inRequest } from "../../base/current-request.ts";
import { described, masked } from "../../base/log.ts";
import { recordsAnySteps, step } from "../../base/steps.ts";
import { Fault } from "../../contract/fault.ts";
import { UUID } from "../../contract/management/identifiers.ts";
import { requestIdIn } from "../../contract/request-id.ts";
import { parseTraceparent, TRACEPARENT_HEADER } from "../../contract/trace-context.ts";
import type { AuditLog, Origin } from "../access/audit.ts";
import {
  type Authentication,
  authenticateAdmin,
  authenticateBearer,
  authenticateKey,
  authenticateLogin,
  authenticateMember,
  authenticateVolume,
  type Callers,
  type Client,
  type VolumeOf,
} from "../access/authentication.ts";
import type { BodyShare } from "../access/body-budgets.ts";
import type { Logins } from "../access/logins.ts";
import { type Allowance, ownerOf, type RequestBudgets, requestKindOf } from "../access/request-rates.ts";
import type { Parts } from "../parts.ts";
import type { Page } from "./page.ts";
import { CLIENT_CLOSED_REQUEST, readJson, uploadOf } from "./request-body.ts";
import type { Route, RouteFacts, RouteResult } from "./route.ts";
import { baseOf } from "./server-address.ts";

export const REQUEST_BODY_MAX_BYTES = 1024 * 1024;
/** Longer paths are cut in log lines. */
const LOGGED_PATH_MAX_CHARS = 256;

/** State of one request. */
interface Exchange {
  id: string;
  client: Client | undefined;
  /** `METHOD /path` of the matching endpoint. */
  route: string | undefined;
  isPage: boolean;
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

interface DispatchOptions<S> extends Pick<Parts, "store" | "clock" | "ids" | "log"> {
  routes: readonly Route<S>[];
  /** Known routes that are not built yet, as `METHOD /path`. */
  unbuilt: readonly string[];
  /** Known routes that will never be built, as `METHOD /path`, with the alternative. */
  absent: Readonly<Record<string, string>>;
  services: S;
  budgets: RequestBudgets;
  logins: Logins;
  /** Pages for browsers, beside the API. */
  pages: readonly Page[];
  audit: Pick<AuditLog, "note" | "noteRecorded">;
  publicUrl?: string | undefined;
  /** False: requests get 503. */
  isReady(): boolean;
  /** The volume of a token, or a Fault. */
  volumeOf?: VolumeOf;
  /** Resolves once the changes of the request are recorded. */
  recorded(): Promise<void>;
}

/** Without a client, requests without a key are not counted. */
type Dispatch = (request: Request, client?: Client) => Promise<Response>;

export function createDispatch<S>(options: DispatchOptions<S>): Dispatch {
  const { routes, clock, ids, log, budgets } = options;
  const app = new Hono<{ Bindings: Exchange }>({ getPath: rawPath });
  for (const { name, answer } of mostLiteralFirst(options)) {
    const [method = "", path = ""] = name.split(" ");
    app.on(method, patternOf(path), async (c) => {
      c.env.route = name;
      return write(await step(name, () => answer(c.req.raw, c.env)));
    });
  }
  for (const page of options.pages) {
    app.on(page.method, page.path, async (c) => {
      c.env.route = `${page.method} ${page.path}`;
      c.env.isPage = true;
      try {
        budgets.takeUnauthenticated(c.env.client?.address);
        if (!options.isReady()) throw starting();
        const base = options.publicUrl ?? baseOf(c.req.raw, c.env.client);
        const { id: requestId, client } = c.env;
        return await page.answer(c.req.raw, { base, address: client?.address, requestId });
      } catch (error) {
        c.env.fault = Fault.from(error);
        return await page.refuse(c.env.fault);
      }
    });
  }
  for (const [path, methods] of methodsByPath([...options.pages, ...routes])) {
    app.all(patternOf(path), (c) => {
      budgets.takeUnauthenticated(c.env.client?.address);
      const allow = [...methods, "OPTIONS"].join(", ");
      throw new Fault(405, `${c.req.method} is not possible on ${path}; it takes ${allow}`, {
        headers: { Allow: allow },
      });
    });
  }
  app.notFound((c) => {
    budgets.takeUnauthenticated(c.env.client?.address);
    throw new Fault(
      404,
      `there is no ${c.req.method} ${masked(shortened(c.req.path))} on this server; see /openapi.json`,
    );
  });
  app.onError((error, c) => writeError(error, c.env));

  async function respond(request: Request, client: Client | undefined, id: string): Promise<Response> {
    const exchange: Exchange = {
      id,
      client,
      route: undefined,
      isPage: false,
      allowance: undefined,
      team: undefined,
      fault: undefined,
    };
    const startedAt = clock.now();
    const response = request.method === "OPTIONS" ? preflight() : await fetchFrom(app, request, exchange);
    for (const [name, value] of Object.entries(exchange.allowance ?? {})) response.headers.set(name, value);
    response.headers.set("X-Request-Id", exchange.id);
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

/** Not failures of the server: the feature is not built; the server is busy; the disk or a quota is full. */
const [NOT_BUILT, BUSY, NO_ROOM] = [501, 503, 507];

function levelOf(status: number): "info" | "warn" | "error" {
  if (status === BUSY || status === NO_ROOM) return "warn";
  return status >= 500 && status !== NOT_BUILT ? "error" : "info";
}

/** The server rejected deliberately: the fault has no other error as its cause. */
function isRefusal({ cause }: Fault): boolean {
  return cause === undefined || (cause instanceof Fault && isRefusal(cause));
}

/** The error in a log line: with all causes for a failure of the server, the message alone for a refusal. */
function reasonFor(fault: Fault): string | undefined {
  if ((fault.status === BUSY && isRefusal(fault)) || fault.status === NOT_BUILT || fault.status === NO_ROOM)
    return fault.message;
  if (fault.status >= 500) return described(fault);
  return fault.status === CLIENT_CLOSED_REQUEST ? fault.message : undefined;
}

interface Endpoint {
  /** `METHOD /path` */
  name: string;
  answer(request: Request, exchange: Exchange): Promise<RouteResult>;
}

/** Endpoints in matching order, so that `/templates/tags` is not read as the id of a template. */
function mostLiteralFirst<S>(options: DispatchOptions<S>): Endpoint[] {
  const { routes, unbuilt, absent } = options;
  const refused = (name: string, why: string): Endpoint => ({
    name,
    answer: () => Promise.reject(new Fault(501, `${name} is ${why}`)),
  });
  const endpoints = [
    ...unbuilt.map((name) => refused(name, "not built yet")),
    ...Object.entries(absent).map(([name, instead]) =>
      refused(name, `not part of this server, which is a single machine: ${instead}`),
    ),
    ...routes.map(
      (route): Endpoint => ({
        name: `${route.method} ${route.path}`,
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

function patternOf(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

async function fetchFrom(app: Hono<{ Bindings: Exchange }>, request: Request, exchange: Exchange): Promise<Response> {
  try {
    return await app.fetch(request, exchange);
  } catch (error) {
    return writeError(error, exchange);
  }
}

async function serve<S>(
  route: Route<S>,
  request: Request,
  options: DispatchOptions<S>,
  exchange: Exchange,
): Promise<RouteResult> {
  const caller = await callerOrStranger(route, request, options, exchange);
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

interface Audited {
  caller: Callers[Authentication];
  /** Undefined: a request that is not audited. */
  origin: Origin | undefined;
  params: Readonly<Record<string, string>>;
}

/** Undefined for requests without a known caller, and for the content of volumes. */
function originOf(route: RouteFacts, caller: Callers[Authentication], exchange: Exchange): Origin | undefined {
  if (caller === undefined || !("actor" in caller)) return undefined;
  return {
    actor: caller.actor,
    // Root comes through a socket.
    address: exchange.client?.address || null,
    requestId: exchange.id,
    action: `${route.method} ${route.path}`,
    status: route.success[0]?.status ?? 200,
  };
}

/** Fields of responses that name what the request created; the first one counts. */
const CREATED_FIELDS = ["sandboxID", "snapshotID", "templateID", "buildID", "volumeID", "id"] as const;

function audit(
  route: RouteFacts,
  { caller, origin, params }: Audited,
  answer: RouteResult,
  log: DispatchOptions<unknown>["audit"],
): void {
  if (origin === undefined) return;
  const { teamID, ...others } = params;
  // A path may hold any text.
  const named = teamID !== undefined && UUID.test(teamID) ? teamID.toLowerCase() : null;
  const teamId = caller && "team" in caller ? caller.team.id : named;
  const isRecorded = origin.isRecorded === true && answer.status < 400;
  if (isRecorded) log.noteRecorded(origin, teamId);
  if (isRecorded || route.method === "GET") return;
  const body: Record<string, unknown> =
    answer.status < 400 && typeof answer.body === "object" && answer.body !== null ? { ...answer.body } : {};
  const [created] = CREATED_FIELDS.flatMap((field) => (typeof body[field] === "string" ? [body[field]] : []));
  const object = [...new Set([...Object.values(others), ...(created === undefined ? [] : [created])])].join(" ");
  log.note(origin, { teamId, object: object === "" ? (teamID ?? null) : object, status: answer.status });
}

function bodyTerms({ maxBytes = REQUEST_BODY_MAX_BYTES }: { maxBytes?: number }, share: BodyShare, clock: Clock) {
  return { maxBytes, clock, take: (bytes: number) => share.grow(bytes) };
}

/** Requests without a caller have a budget too: for public routes, and for guessed keys. */
async function callerOrStranger<S>(
  route: Route<S>,
  request: Request,
  options: DispatchOptions<S>,
  { client }: Exchange,
): Promise<Callers[Authentication]> {
  if (route.auth === "none") options.budgets.takeUnauthenticated(client?.address);
  try {
    return await callerOf(route, request, options, client);
  } catch (thrown) {
    if (thrown instanceof Fault && thrown.status === 401) options.budgets.takeUnauthenticated(client?.address);
    throw thrown;
  }
}

async function callerOf<S>(
  route: Route<S>,
  { headers }: Request,
  { store, clock, logins, isReady, volumeOf }: DispatchOptions<S>,
  client: Client | undefined,
): Promise<Callers[Authentication]> {
  if (route.auth === "none") return undefined;
  if (!isReady()) throw starting();
  const given = { headers, client, store, logins, now: clock.now() };
  switch (route.auth) {
    case "volume":
      return await authenticateVolume(given, volumeOf);
    case "key":
      return await authenticateKey(given);
    case "member":
      return await authenticateMember(given);
    case "admin":
      return await authenticateAdmin(given);
    case "login":
      return await authenticateLogin(given);
    case "bearer":
      return await authenticateBearer(given);
  }
}

function starting(): Fault {
  return new Fault(503, "the server is starting or stopping; try again in a moment");
}

/** Decodes each segment once, after splitting the path, so that an encoded slash stays in its segment. */
function paramsOf(route: { path: string }, request: Request): Record<string, string> {
  const written = rawPath(request).split("/");
  const params: Record<string, string> = {};
  for (const [position, segment] of route.path.split("/").entries()) {
    if (!segment.startsWith("{")) continue;
    try {
      params[segment.slice(1, -1)] = decodeURIComponent(written[position] ?? "");
    } catch (cause) {
      throw new Fault(400, `${segment} in the path is not valid percent-encoding`, { cause });
    }
  }
  return params;
}

/** The path as sent, still encoded. */
function rawPath(request: Request): string {
  // Without a usable Host header the URL is the bare target.
  const bare = request.url.startsWith("/");
  const pathAt = bare ? 0 : request.url.indexOf("/", request.url.indexOf("://") + 3);
  const end = request.url.slice(pathAt).search(/[?#]/);
  return pathAt < 0 ? "/" : request.url.slice(pathAt, end < 0 ? undefined : pathAt + end);
}

function searchOf(request: Request): URLSearchParams {
  const [written = ""] = request.url.split("#", 1);
  const at = written.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : written.slice(at + 1));
}

function shortened(path: string): string {
  return path.length > LOGGED_PATH_MAX_CHARS ? `${path.slice(0, LOGGED_PATH_MAX_CHARS)}…` : path;
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
