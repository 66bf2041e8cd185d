/**
 * Entry point of every request. It checks in this order: control channel, cross-origin preflight, access token, user,
 * route. It is a plain function from Request to Response, so tests need no socket.
 */
import { Fault } from "../contract/fault.ts";
import { requestIdIn } from "../contract/request-id.ts";
import type { ConnectServices } from "./connect-services.ts";
import type { ControlChannel } from "./control-channel.ts";
import { allowOrigin, preflightResponse } from "./cors.ts";
import type { FileRequests } from "./file-requests.ts";
import type { LazyPart } from "./lazy-part.ts";
import { collectLater } from "./system/garbage.ts";
import { logError } from "./system/log.ts";
import type { Meter } from "./system/metrics.ts";
import { isAbort } from "./system/rpc-fault.ts";
import { basicUserName, requireToken, requireUser } from "./users/access.ts";
import type { Account, Accounts } from "./users/accounts.ts";
import { sandboxVariables } from "./users/environment.ts";
import { type Opening, requireFileAccess } from "./users/file-signature.ts";
import type { SettingsKeeper } from "./users/settings.ts";

/** The services that requests are routed to. */
export interface GuestServices {
  settings: SettingsKeeper;
  accounts: Accounts;
  control: ControlChannel;
  rpc: LazyPart<ConnectServices>;
  files: LazyPart<FileRequests>;
  meter: Meter;
}

/** Paths of RPC calls. Only a request for one of them loads the Connect services. */
const CALL = /^\/(?:process\.Process|filesystem\.Filesystem)\//;

const UNCACHED = { "Cache-Control": "no-store" };
const PLAIN_METHODS: Record<string, readonly string[]> = {
  "/health": ["GET"],
  "/metrics": ["GET"],
  "/envs": ["GET"],
  "/files": ["GET", "POST"],
  "/files/compose": ["POST"],
};

export async function handleRequest(request: Request, services: GuestServices): Promise<Response> {
  try {
    services.control.takeSettings();
    const url = requestUrl(request);
    if (services.control.admits(request, url.pathname)) return await services.control.handle(request, url.pathname);
    return preflightResponse(request) ?? allowOrigin(request, await handleChecked(request, url, services));
  } catch (thrown) {
    return allowOrigin(request, faultResponse(thrown, request));
  }
}

/** Uses path and query only: the Host header comes from the client and may not even be a valid host. */
function requestUrl(request: Request): URL {
  const target = request.url.replace(/^https?:\/\/[^/?#]*/i, "");
  return new URL(`http://guest${target.startsWith("/") ? "" : "/"}${target}`);
}

async function handleChecked(request: Request, url: URL, services: GuestServices): Promise<Response> {
  const openedBy = requireAccess(request, url, services);
  // Only in a configured sandbox: an unassigned one may be frozen before the scheduled garbage collection runs.
  if (services.settings.sandboxId !== "" && url.pathname !== "/health") collectLater();
  // The signer of a link chose the user, so a user named by the request is ignored.
  const named = openedBy === "signature" ? undefined : basicUserName(request.headers);
  const lookup = () => requireUser(services.accounts, named ?? services.settings.current.defaultUser);
  if (named !== undefined) {
    try {
      lookup();
    } catch (thrown) {
      return (await services.rpc.load()).refusal(request, thrown);
    }
  }
  if (CALL.test(url.pathname)) return callResponse(request, url, services, lookup);
  return plainResponse(request, url, services, named);
}

async function callResponse(
  request: Request,
  url: URL,
  { rpc }: GuestServices,
  user: () => Account,
): Promise<Response> {
  const calls = await rpc.load();
  if (calls.has(url.pathname)) return calls.handle(request, url, user);
  return new Response("404 page not found\n", { status: 404, headers: TEXT });
}

function requireAccess(request: Request, url: URL, services: GuestServices): Opening {
  const operation = `${request.method} ${url.pathname}`;
  // Checked before the settings are read, because reading lost settings throws.
  if (operation === "GET /health") return "open";
  const tokens = services.settings.current.accessTokens;
  switch (operation) {
    case "GET /files":
      return requireFileAccess(request.headers, url.searchParams, "read", tokens, nowSeconds());
    case "POST /files":
      return requireFileAccess(request.headers, url.searchParams, "write", tokens, nowSeconds());
    default:
      requireToken(request.headers, tokens);
      return tokens.length === 0 ? "open" : "token";
  }
}

async function plainResponse(
  request: Request,
  url: URL,
  services: GuestServices,
  named: string | undefined,
): Promise<Response> {
  const methods = Object.hasOwn(PLAIN_METHODS, url.pathname) ? PLAIN_METHODS[url.pathname] : undefined;
  if (methods === undefined) return new Response("404 page not found\n", { status: 404, headers: TEXT });
  if (!methods.includes(request.method)) {
    return new Response(null, { status: 405, headers: { Allow: methods.join(", ") } });
  }
  switch (url.pathname) {
    case "/health":
      return new Response(null, { status: 204, headers: UNCACHED });
    case "/metrics":
      return Response.json(services.meter.read(), { headers: UNCACHED });
    case "/envs":
      return Response.json(sandboxVariables(services.settings.current), { headers: UNCACHED });
    case "/files/compose":
      return (await services.files.load()).compose(request, named);
    default:
      return (await services.files.load()).transfer(request, url, named);
  }
}

const TEXT = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

function faultResponse(thrown: unknown, { headers }: Request): Response {
  const fault = Fault.from(thrown);
  if (fault.status >= 500 && fault.cause !== undefined && !isAbort(fault.cause)) {
    logError("a request failed", fault.cause, { status: fault.status, request: requestIdIn(headers) });
  }
  const { code, message } = fault.toBody();
  return new Response(`${JSON.stringify({ code, message })}\n`, {
    status: fault.status,
    headers: {
      "Content-Type": "application/json; charset=utf-8",
      "X-Content-Type-Options": "nosniff",
      ...fault.headers,
    },
  });
}
