/**
 * Every request enters here and meets the checks in their order: the host's side door, cross-origin preflight, access
 * token, user, route. It is a plain function from Request to Response, so tests need no socket.
 */
import { Fault } from "../contract/fault.ts";
import type { ControlChannel } from "./control-channel.ts";
import { allowOrigin, preflightAnswer } from "./cors.ts";
import { compose } from "./files/compose.ts";
import { readComposeRequest } from "./files/compose-request.ts";
import { download } from "./files/download.ts";
import { type UploadedFile, upload } from "./files/upload.ts";
import { notingFiles } from "./journal/file-notes.ts";
import type { Journal } from "./journal/journal.ts";
import { errorAnswer, type RpcRoutes } from "./rpc/rpc.ts";
import { logError } from "./system/log.ts";
import type { Meter } from "./system/metrics.ts";
import { isAbort, toConnectError } from "./system/rpc-fault.ts";
import { basicUserName, demandToken, demandUser } from "./users/access.ts";
import type { Account, Accounts } from "./users/accounts.ts";
import { sandboxVariables } from "./users/environment.ts";
import { demandFileAccess, type Opening } from "./users/file-signature.ts";
import { resolvePath } from "./users/paths.ts";
import type { SettingsKeeper } from "./users/settings.ts";

/** What is behind the door. */
export interface GuestServices {
  settings: SettingsKeeper;
  accounts: Accounts;
  control: ControlChannel;
  rpc: RpcRoutes;
  meter: Meter;
  journal: Journal;
}

const UNCACHED = { "Cache-Control": "no-store" };
const PLAIN_METHODS: Record<string, readonly string[]> = {
  "/health": ["GET"],
  "/metrics": ["GET"],
  "/envs": ["GET"],
  "/files": ["GET", "POST"],
  "/files/compose": ["POST"],
};

export async function answer(request: Request, services: GuestServices): Promise<Response> {
  try {
    const url = requestUrl(request);
    if (services.control.admits(request, url.pathname)) return await services.control.handle(request, url.pathname);
    return preflightAnswer(request) ?? allowOrigin(request, await checkedAnswer(request, url, services));
  } catch (thrown) {
    return allowOrigin(request, faultAnswer(thrown));
  }
}

/** Only path and query matter; a client may have put anything into the Host header, also what is no host at all. */
function requestUrl(request: Request): URL {
  const target = request.url.replace(/^https?:\/\/[^/?#]*/i, "");
  return new URL(`http://guest${target.startsWith("/") ? "" : "/"}${target}`);
}

async function checkedAnswer(request: Request, url: URL, services: GuestServices): Promise<Response> {
  const openedBy = demandAccess(request, url, services);
  // Who signed a link said whose file it is; who follows it has no say.
  const named = openedBy === "signature" ? undefined : basicUserName(request.headers);
  const lookup = () => demandUser(services.accounts, named ?? services.settings.current.defaultUser);
  if (named !== undefined) {
    try {
      lookup();
    } catch (thrown) {
      return errorAnswer(request, toConnectError(thrown), Fault.from(thrown).status);
    }
  }
  if (services.rpc.has(url.pathname)) return services.rpc.handle(request, url, lookup);
  return plainAnswer(request, url, services, named);
}

function demandAccess(request: Request, url: URL, services: GuestServices): Opening {
  const asked = `${request.method} ${url.pathname}`;
  // Before anybody looks into the settings, which may be lost.
  if (asked === "GET /health") return "open";
  const tokens = services.settings.current.accessTokens;
  switch (asked) {
    case "GET /files":
      return demandFileAccess(request.headers, url.searchParams, "read", tokens, nowSeconds());
    case "POST /files":
      return demandFileAccess(request.headers, url.searchParams, "write", tokens, nowSeconds());
    default:
      demandToken(request.headers, tokens);
      return tokens.length === 0 ? "open" : "token";
  }
}

async function plainAnswer(
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
      return Response.json(await services.meter.read(), { headers: UNCACHED });
    case "/envs":
      return Response.json(sandboxVariables(services.settings.current), { headers: UNCACHED });
    case "/files/compose":
      return composeAnswer(request, services, named);
    default:
      return fileAnswer(request, url, services, named);
  }
}

const TEXT = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };

async function fileAnswer(
  request: Request,
  url: URL,
  services: GuestServices,
  named: string | undefined,
): Promise<Response> {
  const { defaultUser, defaultWorkdir } = services.settings.current;
  const account: Account = demandUser(services.accounts, url.searchParams.get("username") || named || defaultUser);
  const resolve = (path: string, field?: string) => resolvePath(path, account, defaultWorkdir, field);
  const path = url.searchParams.get("path");
  const facts = { path: resolve(path ?? ""), user: account.name };
  if (request.method === "GET") {
    const status = (answer: Response) => ({ status: answer.status });
    return notingFiles(services.journal, "download", facts, () => download(request, facts.path), status);
  }
  const send = () => upload(request, path, resolve, account);
  const names = (files: UploadedFile[]) => ({ files: files.length, path: files.map((file) => file.path).join(", ") });
  return Response.json(await notingFiles(services.journal, "upload", facts, send, names), {
    headers: { "Content-Type": "application/json" },
  });
}

async function composeAnswer(request: Request, services: GuestServices, named: string | undefined): Promise<Response> {
  const { sources, destination, username } = await readComposeRequest(request);
  const { defaultUser, defaultWorkdir } = services.settings.current;
  const owner = demandUser(services.accounts, username || named || defaultUser);
  const resolve = (path: string, field: string) => resolvePath(path, owner, defaultWorkdir, field);
  const composition = {
    sources: sources.map((source) => resolve(source, "source_paths")),
    destination: resolve(destination, "destination"),
    owner,
  };
  const facts = { path: composition.destination, sources: sources.length, user: owner.name };
  const work = () => compose(composition, request.signal);
  return Response.json(await notingFiles(services.journal, "compose", facts, work), {
    headers: { "Content-Type": "application/json" },
  });
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

function faultAnswer(thrown: unknown): Response {
  const fault = Fault.from(thrown);
  if (fault.status >= 500 && fault.cause !== undefined && !isAbort(fault.cause)) {
    logError("a request failed", fault.cause, { status: fault.status });
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
