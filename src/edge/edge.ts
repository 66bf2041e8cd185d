/**
 * The edge: sandbox URLs. It finds the sandbox that a request names, has it woken if need be, and carries bytes between
 * the client and that sandbox's port. It never decides about a sandbox's life, never reads a body, and keeps no
 * connection to a sandbox between requests.
 *
 *   sandbox-address  which sandbox and port        reach            the way to that port, loopback services included
 *   route-table      where each sandbox is         http-forward     one HTTP exchange: by fetch, or as own-exchange
 *   traffic-token    who is let through            own-exchange     over a sandbox-socket; answer-head, answer-body
 *   control-path     what is refused on 49983      websocket-relay  one WebSocket; websocket-handshake, -frame
 *   refusal          answers of the edge itself    client-address   whose request it is
 */
import type { Server, WebSocketHandler } from "bun";
import { Fault } from "../contract/fault.ts";
import type { SignedLink } from "../contract/runtime/file-signature.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import type { Directory } from "../control/directory.ts";
import { Tally } from "../work/tally.ts";
import { clientAddress, TrustedProxies } from "./client-address.ts";
import { internalPath } from "./control-path.ts";
import { httpAttempt } from "./http-forward.ts";
import { type ConnectionLimits, EDGE_CONNECTIONS_DEFAULT } from "./limits.ts";
import { answerPreflight, headersAskedFor, preflightOf } from "./preflight.ts";
import { createReach, type EdgeLog } from "./reach.ts";
import { type Refusal, refuse } from "./refusal.ts";
import type { RouteTable } from "./route-table.ts";
import { addressOf, type Misaddressed, type SandboxAddress } from "./sandbox-address.ts";
import { signedLinkOf } from "./signed-link.ts";
import { isWebSocketUpgrade, type Relay, relayHandler, upgradeThrough } from "./websocket-relay.ts";

export type { EdgeLog } from "./reach.ts";
export type { Relay } from "./websocket-relay.ts";

/** What `route` found; opaque to the caller. */
type EdgeRoute = SandboxAddress | Misaddressed | { signed: SignedLink } | { preflight: string };

interface Edge {
  /** Undefined: the request is not for a sandbox. Otherwise hand the result to `handle`. */
  route(request: Request): EdgeRoute | undefined;
  /**
   * The answer, or undefined once the connection has become a WebSocket. Never rejects. Consumes the request's headers.
   */
  handle(request: Request, route: EdgeRoute, server: Server<Relay>): Promise<Response | undefined>;
  /**
   * The `websocket` option of the server that calls `handle`; its `maxRequestBodySize` is EDGE_REQUEST_BODY_MAX_BYTES.
   */
  websocket: WebSocketHandler<Relay>;
}

interface EdgeServices {
  directory: Directory;
  /** Kept by what the directory tells. */
  routes: Pick<RouteTable, "find">;
  log: EdgeLog;
  /** Whose word about the client's address is taken; nobody's unless given. */
  trustedProxies?: TrustedProxies;
  /** How much is carried at once, if not as much as is usual. */
  limits?: ConnectionLimits;
}

const NOBODY = new TrustedProxies([]);

/** Until it is left, once and for all, an exchange counts for its sandbox and team. */
type Place = { leave: () => void } | { refusal: Refusal };

export function createEdge(services: EdgeServices): Edge {
  const { directory, routes, log, trustedProxies = NOBODY, limits = EDGE_CONNECTIONS_DEFAULT } = services;
  const reach = createReach(directory, routes, log);
  const [bySandbox, byTeam] = [new Tally(limits.perSandbox), new Tally(limits.perTeam)];

  /** Of a sandbox that is not to be reached just now the team is not known, and not counted. */
  function enter({ sandboxId }: SandboxAddress): Place {
    const team = routes.find(sandboxId)?.access.teamId;
    const refused = (of: "sandbox" | "team", { most }: Tally): Place => ({
      refusal: { reason: "too-many-connections", sandboxId, of, most },
    });
    if (!bySandbox.add(sandboxId)) return refused("sandbox", bySandbox);
    if (team !== undefined && !byTeam.add(team)) {
      bySandbox.remove(sandboxId);
      return refused("team", byTeam);
    }
    let isOver = false;
    return {
      leave() {
        if (isOver) return;
        isOver = true;
        bySandbox.remove(sandboxId);
        if (team !== undefined) byTeam.remove(team);
      },
    };
  }

  async function handle(request: Request, route: EdgeRoute, server: Server<Relay>): Promise<Response | undefined> {
    try {
      if ("problem" in route) return refuse(badRequest(400, route.problem), request.headers);
      if ("preflight" in route) return answerPreflight(route.preflight);
      if ("signed" in route) return await handleSigned(request, route.signed, server);
      const target = targetOf(request.url);
      const refusal = refusalFor(request, route, target);
      if (refusal !== undefined) return refuse(refusal, request.headers);
      // The server's own idle limit would cut streams that are silent for a while.
      server.timeout(request, 0);
      const place = enter(route);
      if ("refusal" in place) return refuse(place.refusal, request.headers);
      return await carry(request, route, target, server, place.leave);
    } catch (failure) {
      log("a request to a sandbox could not be routed", { ...namedIn(route), failure });
      return refuse(badRequest(500, "The request could not be routed"), request.headers);
    }
  }

  /** `leave` is called when nothing of the exchange goes on, however it ends. */
  async function carry(
    request: Request,
    route: SandboxAddress,
    target: string,
    server: Server<Relay>,
    leave: () => void,
  ): Promise<Response | undefined> {
    const { headers, signal } = request;
    signal.addEventListener("abort", leave, { once: true });
    try {
      if (isWebSocketUpgrade(request)) return await upgradeThrough(reach, route, target, request, server, leave);
      const asking = { headers, signal, mayWake: !asksForHealth(request, route, target) };
      const outcome = await reach.to(route, asking, httpAttempt(request, target, route.port, leave));
      if ("reached" in outcome) return outcome.reached;
      leave();
      return refused(outcome.refusal, request, route);
    } catch (failure) {
      leave();
      throw failure;
    }
  }

  async function handleSigned(
    request: Request,
    link: SignedLink,
    server: Server<Relay>,
  ): Promise<Response | undefined> {
    try {
      const client = clientAddress(server.requestIP(request)?.address ?? "", request.headers, trustedProxies);
      const sandboxId = await directory.findSigned(link, client);
      if (sandboxId === undefined) throw new Fault(401, "invalid signature");
      return await handle(request, { sandboxId, port: RUNTIME_PORT }, server);
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.status === 500) throw thrown;
      return Response.json(fault.toBody(), { status: fault.status, headers: fault.headers });
    }
  }

  return {
    route: (request) => addressOf(request.headers) ?? signedLinkWrapped(request) ?? preflightWrapped(request),
    handle,
    websocket: relayHandler,
  };
}

function signedLinkWrapped(request: Request): { signed: SignedLink } | undefined {
  const link = signedLinkOf(request);
  return link && { signed: link };
}

function preflightWrapped(request: Request): { preflight: string } | undefined {
  const asked = preflightOf(request);
  return asked === undefined ? undefined : { preflight: asked };
}

/** A browser that asks whether it may send the token that is missing is told so, at the port where that is known. */
function refused(refusal: Refusal, request: Request, { port }: SandboxAddress): Response {
  const asked = headersAskedFor(request);
  if (refusal.reason === "traffic-token-missing" && port === RUNTIME_PORT && asked !== undefined) {
    return answerPreflight(asked);
  }
  return refuse(refusal, request.headers);
}

/** What can be refused without looking the sandbox up. */
function refusalFor(request: Request, route: SandboxAddress, target: string): Refusal | undefined {
  const { method } = request;
  if (method === "CONNECT" || method === "TRACE") return badRequest(405, `${method} is not supported`);
  if (!target.startsWith("/")) return badRequest(400, "Invalid request target");
  if (route.port === RUNTIME_PORT) {
    const path = internalPath(target);
    if (path !== undefined) return { reason: "internal-endpoint", path };
  }
  if ((method === "GET" || method === "HEAD") && announcesBody(request.headers)) {
    // Bun.serve hands out no such body; to lose it silently would be worse.
    return badRequest(501, `A ${method} request with a body is not supported; send it without, or use POST`);
  }
  return undefined;
}

/**
 * The runtime's health asks whether the sandbox runs, so it must not be what makes it run: clients ask when a stream
 * breaks off, also because of a pause, and would undo every pause of a sandbox that resumes by itself.
 */
function asksForHealth({ method }: Request, { port }: SandboxAddress, target: string): boolean {
  return method === "GET" && port === RUNTIME_PORT && /^\/health(\?|$)/.test(target);
}

function announcesBody(headers: Headers): boolean {
  const length = headers.get("content-length");
  return (length !== null && length !== "0") || headers.has("transfer-encoding");
}

/**
 * Path and query of a request's URL. Bun.serve composes the URL from the Host header and the request target, so a
 * target in absolute form never names another machine here; with no usable host it gives the bare target, and that
 * undecoded. What is not ASCII is escaped: cut to one byte on its way to a sandbox, a letter such as U+010A would be
 * the end of a line.
 */
function targetOf(url: string): string {
  const scheme = url.startsWith("/") ? -1 : url.indexOf("://");
  const start = scheme < 0 ? 0 : url.indexOf("/", scheme + 3);
  const fragment = url.indexOf("#", start);
  const target = fragment < 0 ? url.slice(start) : url.slice(start, fragment);
  return target.toWellFormed().replace(/[^!-~]+/g, encodeURIComponent);
}

/** For the log: a link would carry its signature there. */
function namedIn(route: EdgeRoute): Record<string, unknown> {
  return "signed" in route ? {} : { ...route };
}

function badRequest(status: 400 | 405 | 500 | 501, text: string): Refusal {
  return { reason: "bad-request", status, text };
}
