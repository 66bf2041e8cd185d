/**
 * The edge: where all clients come in, and sandbox URLs. It finds the sandbox that a request names, has it woken if
 * need be, and carries bytes between the client and that sandbox's port. It never decides about a sandbox's life, never
 * reads a body, and keeps no connection to a sandbox between requests. What names no sandbox it hands on to the
 * management interface.
 *
 *   front/           clients: HTTP/1.1 and HTTP/2  reach            the way to a port, loopback services included
 *   sandbox-address  which sandbox and port        carriage         one exchange over a sandbox-socket
 *   route-table      where each sandbox is         inner-server     management, and WebSockets:
 *   traffic-token    who is let through            websocket-relay  one of them; websocket-handshake, -frame
 *   control-path     what is refused on 49983      refusal          answers of the edge itself
 */
import type { Server } from "bun";
import { Fault } from "../contract/fault.ts";
import type { SignedLink } from "../contract/runtime/file-signature.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import type { Directory } from "../control/directory.ts";
import { Tally } from "../work/tally.ts";
import { answerWith } from "./answer-with.ts";
import { type Asked, beginCarrying, carry } from "./carriage.ts";
import { linesTowardsManagement, linesTowardsSandbox } from "./carried-headers.ts";
import { clientAddress, isFromProxy, TrustedProxies } from "./client-address.ts";
import { internalPath } from "./control-path.ts";
import type { ClientRequest } from "./front/client-request.ts";
import { InnerServer, PEER_HEADER, type Peer } from "./inner-server.ts";
import { type ConnectionLimits, EDGE_CONNECTIONS_DEFAULT } from "./limits.ts";
import { answerPreflight, headersAskedFor, preflightOf } from "./preflight.ts";
import { createReach, type EdgeLog, type Way } from "./reach.ts";
import { type Refusal, refuse } from "./refusal.ts";
import { targetOf, targetOfUrl } from "./request-target.ts";
import type { RouteTable } from "./route-table.ts";
import { addressOf, type Misaddressed, type SandboxAddress } from "./sandbox-address.ts";
import type { Dialled } from "./sandbox-socket.ts";
import { signedLinkOf } from "./signed-link.ts";
import { isWebSocketUpgrade, type Relay, upgradeThrough } from "./websocket-relay.ts";

export type { EdgeLog } from "./reach.ts";

export interface Edge {
  /** Answers a client's request, for a sandbox or for the management interface. Never throws. */
  handle(client: ClientRequest): void;
  /** What goes to the management interface, and WebSockets, are finished unless `force`. */
  stop(force: boolean): Promise<void>;
}

interface EdgeServices {
  directory: Directory;
  /** Kept by what the directory tells. */
  routes: Pick<RouteTable, "find">;
  /** Answers what names no sandbox. */
  management(request: Request, client: ManagementClient): Promise<Response>;
  log: EdgeLog;
  /** Whose word about the client's address is taken; nobody's unless given. */
  trustedProxies?: TrustedProxies;
  /** How much is carried at once, if not as much as is usual. */
  limits?: ConnectionLimits;
  /** How long a request to the management interface may be silent, if not for the usual time. */
  idleSeconds?: number;
}

/** Who asks the management interface. */
interface ManagementClient {
  address: string;
  /** What the request says of where it comes from is a proxy's word, and the operator takes that. */
  fromTrustedProxy: boolean;
  isSecure: boolean;
}

const NOBODY = new TrustedProxies([]);

export function createEdge(services: EdgeServices): Edge {
  const { directory, routes, management, log, trustedProxies = NOBODY, idleSeconds } = services;
  const { perSandbox, perTeam } = services.limits ?? EDGE_CONNECTIONS_DEFAULT;
  const reach = createReach(directory, routes, log);
  const [bySandbox, byTeam] = [new Tally(perSandbox), new Tally(perTeam)];
  const inner = new InnerServer(answerInside, idleSeconds);

  function handle(client: ClientRequest): void {
    const target = targetOf(client.target);
    const address = addressOf(client.headers);
    // Most requests take this way, and need no promise for it.
    if (address !== undefined) guarded(client, () => handleAddressed(client, target, address));
    else guarded(client, () => handleOther(client, target));
  }

  /** Whatever goes wrong, the client is answered. */
  function guarded(client: ClientRequest, work: () => Promise<void> | undefined): void {
    const failed = (failure: unknown) => {
      log("a request could not be routed", { failure });
      void answerWith(client, refuse(badRequest(500, "The request could not be routed"), client.headers));
    };
    try {
      work()?.catch(failed);
    } catch (failure) {
      failed(failure);
    }
  }

  /**
   * From now until it is over, a request counts for its sandbox and team. Of a sandbox that is not to be reached just
   * now the team is not known, and not counted.
   */
  function enter(client: ClientRequest, { sandboxId }: SandboxAddress): Refusal | undefined {
    const team = routes.find(sandboxId)?.access.teamId;
    const refused = (of: "sandbox" | "team", { most }: Tally): Refusal => ({
      reason: "too-many-connections",
      sandboxId,
      of,
      most,
    });
    if (client.isGone) return undefined;
    if (!bySandbox.add(sandboxId)) return refused("sandbox", bySandbox);
    if (team !== undefined && !byTeam.add(team)) {
      bySandbox.remove(sandboxId);
      return refused("team", byTeam);
    }
    client.onOver = () => {
      bySandbox.remove(sandboxId);
      if (team !== undefined) byTeam.remove(team);
    };
    return undefined;
  }

  async function handleOther(client: ClientRequest, target: string): Promise<void> {
    const asked = { method: client.method, headers: client.headers, target };
    const link = signedLinkOf(asked);
    const preflight = link === undefined ? preflightOf(asked) : undefined;
    if (link !== undefined) await handleSigned(client, target, link);
    else if (preflight !== undefined) await answerWith(client, answerPreflight(preflight));
    else await handInside(client, client.target, "");
  }

  function handleAddressed(
    client: ClientRequest,
    target: string,
    route: SandboxAddress | Misaddressed,
  ): Promise<void> | undefined {
    const { method, headers } = client;
    if ("problem" in route) return answerWith(client, refuse(badRequest(400, route.problem), headers));
    const refusal = refusalFor(method, route, target);
    if (refusal !== undefined) return answerWith(client, refuse(refusal, headers));
    const full = enter(client, route);
    if (full !== undefined) return answerWith(client, refuse(full, headers));
    if (isWebSocketUpgrade(client) && client.tunnel !== undefined) {
      if (client.bodyBytes !== 0) {
        return answerWith(client, refuse(badRequest(400, "A WebSocket's handshake has no body"), headers));
      }
      return handInside(client, target, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    }
    const way = reach.atOnce(route, headers);
    if (way === undefined || way === "unknown") return toSandbox(client, target, route, way === "unknown");
    beginCarrying(client, askedOf(client, target, route, way), dialledFor(way), {
      failed(failure) {
        const why = reach.refusalAfter(route, way, failure);
        guarded(client, () =>
          why === undefined ? toSandbox(client, target, route, false) : answerWith(client, refuse(why, headers)),
        );
      },
    });
    return undefined;
  }

  async function toSandbox(
    client: ClientRequest,
    target: string,
    route: SandboxAddress,
    isUnknown: boolean,
  ): Promise<void> {
    const { method, headers } = client;
    const asking = {
      headers,
      mayWake: !asksForHealth(method, route, target),
      get signal() {
        return client.signal;
      },
    };
    const attempt = (way: Way) => carry(client, askedOf(client, target, route, way), dialledFor(way));
    const outcome = await reach.to(route, asking, attempt, isUnknown);
    if ("refusal" in outcome) await answerWith(client, refused(outcome.refusal, client, route));
  }

  async function handleSigned(client: ClientRequest, target: string, link: SignedLink): Promise<void> {
    try {
      const address = clientAddress(client.peer, client.headers, trustedProxies);
      const sandboxId = await directory.findSigned(link, address);
      if (sandboxId === undefined) throw new Fault(401, "invalid signature");
      await handleAddressed(client, target, { sandboxId, port: RUNTIME_PORT });
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.status === 500) throw thrown;
      await answerWith(client, Response.json(fault.toBody(), { status: fault.status, headers: fault.headers }));
    }
  }

  /** What Bun's own server answers. `connection` says what becomes of the connection to it. */
  async function handInside(client: ClientRequest, target: string, connection: string): Promise<void> {
    const { method, headers } = client;
    const lines = linesTowardsManagement(headers, PEER_HEADER) + inner.peerLine(client);
    const asked = { head: `${method} ${target} HTTP/1.1\r\n${lines}${connection}`, mayUpgrade: connection !== "" };
    // It hangs up on a request that is silent for too long, and so do we.
    const failed = () => client.cut();
    await carry(client, { isGuest: false, ...asked }, { to: inner, tlsName: undefined, until: [] }).catch(failed);
  }

  async function answerInside(request: Request, server: Server<Relay>, peer: Peer): Promise<Response | undefined> {
    const address = isWebSocketUpgrade(request) ? addressOf(request.headers) : undefined;
    if (address === undefined) {
      return await management(request, {
        address: clientAddress(peer.address, request.headers, trustedProxies),
        fromTrustedProxy: isFromProxy(peer.address, trustedProxies),
        isSecure: peer.isSecure,
      });
    }
    if ("problem" in address) return refuse(badRequest(400, address.problem), request.headers);
    try {
      const target = targetOfUrl(request.url);
      const refusal = refusalFor(request.method, address, target);
      if (refusal !== undefined) return refuse(refusal, request.headers);
      // The server's own idle limit would cut streams that are silent for a while.
      server.timeout(request, 0);
      return await upgradeThrough(reach, address, target, request, server);
    } catch (failure) {
      log("a request to a sandbox could not be routed", { ...address, failure });
      return refuse(badRequest(500, "The request could not be routed"), request.headers);
    }
  }

  return {
    handle,
    stop: (force) => inner.stop(force),
  };
}

function dialledFor({ host, port, tlsName, ended }: Way): Dialled {
  return { to: { host, port }, tlsName, until: [ended] };
}

/** The request as the service gets it. */
function askedOf(client: ClientRequest, target: string, { port }: SandboxAddress, { maskedHost }: Way): Asked {
  const { method, headers } = client;
  const isGuest = port === RUNTIME_PORT && method === "GET" && /^\/files(\?|$)/.test(target);
  // A new connection for each request: addresses pass from one sandbox to the next, an idle connection must not.
  const head = `${method} ${target} HTTP/1.1\r\n${linesTowardsSandbox(headers, maskedHost)}Connection: close\r\n`;
  return { head, isGuest };
}

/** A browser that asks whether it may send the token that is missing is told so, at the port where that is known. */
function refused(refusal: Refusal, client: ClientRequest, { port }: SandboxAddress): Response {
  const asked = headersAskedFor(client);
  if (refusal.reason === "traffic-token-missing" && port === RUNTIME_PORT && asked !== undefined) {
    return answerPreflight(asked);
  }
  return refuse(refusal, client.headers);
}

/** What can be refused without looking the sandbox up. */
function refusalFor(method: string, route: SandboxAddress, target: string): Refusal | undefined {
  if (method === "CONNECT" || method === "TRACE") return badRequest(405, `${method} is not supported`);
  if (!target.startsWith("/")) return badRequest(400, "Invalid request target");
  if (route.port === RUNTIME_PORT) {
    const path = internalPath(target);
    if (path !== undefined) return { reason: "internal-endpoint", path };
  }
  return undefined;
}

/**
 * The runtime's health asks whether the sandbox runs, so it must not be what makes it run: clients ask when a stream
 * breaks off, also because of a pause, and would undo every pause of a sandbox that resumes by itself.
 */
function asksForHealth(method: string, { port }: SandboxAddress, target: string): boolean {
  return method === "GET" && port === RUNTIME_PORT && /^\/health(\?|$)/.test(target);
}

function badRequest(status: 400 | 405 | 500, text: string): Refusal {
  return { reason: "bad-request", status, text };
}
