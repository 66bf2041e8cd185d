/**
 * The edge: the entry of all clients, and of sandbox URLs. It finds the sandbox that a request names, has it woken if
 * necessary, and carries bytes between the client and that sandbox's port. Requests that name no sandbox go to the
 * management API. The edge never decides about a sandbox's lifecycle, never interprets a body, and keeps no
 * connection to a sandbox between requests.
 */
import type { Splice } from "../base/splicing.ts";
import { Fault } from "../contract/fault.ts";
import type { Directory } from "../contract/internal/directory.ts";
import { REQUEST_ID_HEADER, type RequestOrigin } from "../contract/request-id.ts";
import type { SignedLink } from "../contract/runtime/file-signature.ts";
import { RUNTIME_PORT } from "../contract/runtime/version.ts";
import { TRACEPARENT_HEADER, traceparentOf } from "../contract/trace-context.ts";
import { HeaderLines } from "../http1/header-lines.ts";
import type { ClientRequest } from "./front/client-request.ts";
import type { ConnectionLimits } from "./limits.ts";
import { type ConnectionQuota, LocalQuota } from "./proxy/connection-quota.ts";
import { type OutgoingRequest, proxy, startExchange } from "./proxy/exchange.ts";
import { linesTowardsManagement, linesTowardsSandbox } from "./proxy/forwarded-headers.ts";
import { type ManagementSocket, PEER_HEADER, peerValue } from "./proxy/management-peer.ts";
import { addOwnAddressLines, WITHHELD_OF_RUNTIME, WITHHELD_OF_SERVICE } from "./proxy/own-address.ts";
import { respondWith } from "./proxy/respond.ts";
import type { ConnectOptions } from "./proxy/sandbox-socket.ts";
import { upgradeOf } from "./proxy/upgrade.ts";
import { type Refusal, responseTo } from "./refusal.ts";
import { classOf, RequestCounts } from "./request-counts.ts";
import type { RequestTraces } from "./request-trace.ts";
import { clientAddress, NO_PROXIES, type TrustedProxies } from "./routing/client-address.ts";
import { internalPath } from "./routing/control-path.ts";
import { headersAskedFor, preflightOf, preflightResponse } from "./routing/preflight.ts";
import { targetOf } from "./routing/request-target.ts";
import type { Destination, RouteTable } from "./routing/route-table.ts";
import { addressOf, isOnOwnAddress, type Misaddressed, type SandboxAddress } from "./routing/sandbox-address.ts";
import { type EdgeLog, ServiceLookup, type ServiceTarget } from "./routing/service-lookup.ts";
import { signedLinkOf } from "./routing/signed-link.ts";

export const EDGE_CONNECTIONS_DEFAULT: ConnectionLimits = { perSandbox: 2_500, perTeam: 20_000 };

interface EdgeServices {
  directory: Directory;
  /** Kept up to date by the directory's events. */
  routes: Pick<RouteTable, "find">;
  /** Where requests that name no sandbox go. */
  management: ManagementSocket;
  log: EdgeLog;
  /** Proxies whose forwarding headers are trusted. Default: none. */
  trustedProxies?: TrustedProxies;
  /** Limits of concurrent requests. Default: EDGE_CONNECTIONS_DEFAULT. */
  quota?: ConnectionQuota;
  /** Moves long bodies inside the kernel. Absent: the edge copies all bodies. */
  splice?: Splice;
  counts?: RequestCounts;
  /** Limits the kernel's buffers of connections to sandboxes. Absent: the kernel's defaults. */
  buffers?: ConnectOptions["buffers"];
  /** Absent: no traces are exported. */
  traces?: RequestTraces | undefined;
}

export class Edge {
  readonly #counts: RequestCounts;
  readonly #quota: ConnectionQuota;
  readonly #lookup: ServiceLookup;

  constructor(private readonly services: EdgeServices) {
    this.#counts = services.counts ?? new RequestCounts();
    this.#quota = services.quota ?? new LocalQuota(EDGE_CONNECTIONS_DEFAULT);
    this.#lookup = new ServiceLookup(services.directory, services.routes, services.log);
  }

  /** Handles a client's request, for a sandbox or for the management API. Never throws. */
  readonly handle = (client: ClientRequest): void => {
    client.trace = this.services.traces?.begin(client);
    const target = targetOf(client.target);
    const address = addressOf(client.headers);
    // Most requests take this path, which needs no promise.
    if (address !== undefined) this.#guarded(client, () => this.#handleAddressed(client, target, address));
    else this.#guarded(client, () => this.#handleOther(client, target));
  };

  /** Sends the response of a refusal, and counts it. */
  #refuse(client: ClientRequest, refusal: Refusal): Promise<void> {
    this.#counts.refusal(refusal);
    return respondWith(client, responseTo(refusal, client.headers));
  }

  /** A browser's preflight cannot carry the missing token: on the runtime port it gets the runtime's CORS response. */
  #refuseAccess(client: ClientRequest, refusal: Refusal, { port }: SandboxAddress): Promise<void> {
    const preflight = headersAskedFor(client);
    if (refusal.reason === "traffic-token-missing" && port === RUNTIME_PORT && preflight !== undefined) {
      return respondWith(client, preflightResponse(preflight));
    }
    return this.#refuse(client, refusal);
  }

  /** Whatever fails, the client gets a response. */
  #guarded(client: ClientRequest, work: () => Promise<void> | undefined): void {
    const failed = (failure: unknown) => {
      this.services.log("a request could not be routed", { request: client.requestId, failure });
      void this.#refuse(client, badRequest(500, "The request could not be routed"));
    };
    try {
      work()?.catch(failed);
    } catch (failure) {
      failed(failure);
    }
  }

  /** Counts the request for its sandbox and team until it is over. */
  #enter(client: ClientRequest, sandboxId: string, destination: Destination | undefined): Refusal | undefined {
    if (client.isDisconnected) return undefined;
    const taken = this.#quota.take(sandboxId, destination);
    if ("full" in taken) return { reason: "too-many-connections", sandboxId, scope: taken.full, max: taken.max };
    client.onOver = taken.release;
    return undefined;
  }

  async #handleOther(client: ClientRequest, target: string): Promise<void> {
    const request = { method: client.method, headers: client.headers, target };
    const link = signedLinkOf(request);
    const preflight = link === undefined ? preflightOf(request) : undefined;
    if (link !== undefined) await this.#handleSigned(client, target, link);
    else if (preflight !== undefined) await respondWith(client, preflightResponse(preflight));
    else await this.#proxyToManagement(client);
  }

  async #proxyToManagement(client: ClientRequest): Promise<void> {
    const { method, target, headers } = client;
    const { management } = this.services;
    this.#counts.request("management");
    client.trace?.setDestination({ kind: "management", target });
    const own = ownHeaders(client);
    own.append(PEER_HEADER, peerValue(management, client));
    const head = `${method} ${target} HTTP/1.1\r\n${linesTowardsManagement(headers, own)}`;
    const outgoing = { head, isGuest: false };
    // The management server closes a request that is idle for too long; the edge then does the same.
    const failed = () => client.cut();
    await proxy(client, outgoing, { to: management }).catch(failed);
  }

  #handleAddressed(
    client: ClientRequest,
    target: string,
    route: SandboxAddress | Misaddressed,
  ): Promise<void> | undefined {
    if ("problem" in route) return this.#refuse(client, badRequest(400, route.problem));
    const kind = classOf(route.port, target);
    this.#counts.request(kind);
    client.trace?.setDestination(kind === "service" ? { kind, ...route } : { kind, ...route, target });
    const refusal = refusalFor(client.method, route, target);
    if (refusal !== undefined) return this.#refuse(client, refusal);
    const destination = this.services.routes.find(route.sandboxId);
    const full = this.#enter(client, route.sandboxId, destination);
    if (full !== undefined) return this.#refuse(client, full);
    if (destination === undefined) return this.#whenAwake(client, target, route);
    return this.#proxyAtOnce(client, target, route, destination);
  }

  #proxyAtOnce(
    client: ClientRequest,
    target: string,
    route: SandboxAddress,
    destination: Destination,
  ): Promise<void> | undefined {
    const { headers } = client;
    if (upgradeOf(client) !== undefined && client.bodyBytes !== 0) {
      return this.#refuse(client, badRequest(400, "A request to upgrade the connection has no body"));
    }
    const service = this.#lookup.directTarget(route, headers, destination);
    if (service === undefined) return this.#proxyWithRetries(client, target, route);
    const began = performance.now();
    const isStart = classOf(route.port, target) === "command";
    startExchange(client, outgoingRequest(client, target, route, service), connectOptions(service, this.services), {
      responded: () => {
        if (isStart) this.#counts.commandStarted((performance.now() - began) / 1000);
      },
      failed: (failure) => {
        this.#guarded(client, async () => {
          const request = { headers, origin: originOf(client) };
          const why = await this.#lookup.refusalAfter(route, request, service, failure);
          await (why === undefined ? this.#proxyWithRetries(client, target, route) : this.#refuse(client, why));
        });
      },
    });
    return undefined;
  }

  /** While it waits, the request only counts for the sandbox. Once the team is known, it counts for that too. */
  async #whenAwake(client: ClientRequest, target: string, route: SandboxAddress): Promise<void> {
    const mayWake = !asksForHealth(client.method, route, target);
    const { headers } = client;
    const found = await this.#lookup.untilAwake(route, { headers, origin: originOf(client), mayWake });
    if ("reason" in found) return await this.#refuseAccess(client, found, route);
    if (client.isDisconnected) return;
    client.onOver?.();
    client.onOver = undefined;
    const full = this.#enter(client, route.sandboxId, found);
    if (full !== undefined) return await this.#refuse(client, full);
    await this.#proxyAtOnce(client, target, route, found);
  }

  async #proxyWithRetries(client: ClientRequest, target: string, route: SandboxAddress): Promise<void> {
    const { method, headers } = client;
    const request = {
      headers,
      origin: originOf(client),
      mayWake: !asksForHealth(method, route, target),
      get signal() {
        return client.signal;
      },
    };
    const attempt = (service: ServiceTarget) =>
      proxy(client, outgoingRequest(client, target, route, service), connectOptions(service, this.services));
    const refusal = await this.#lookup.tryUntilReached(route, request, attempt);
    if (refusal !== undefined) await this.#refuseAccess(client, refusal, route);
  }

  async #handleSigned(client: ClientRequest, target: string, link: SignedLink): Promise<void> {
    try {
      const address = clientAddress(client.peer, client.headers, this.services.trustedProxies ?? NO_PROXIES);
      const sandboxId = await this.services.directory.findSigned(link, address);
      if (sandboxId === undefined) throw new Fault(401, "invalid signature");
      await this.#handleAddressed(client, target, { sandboxId, port: RUNTIME_PORT });
    } catch (thrown) {
      const fault = Fault.from(thrown);
      if (fault.status === 500) throw thrown;
      await respondWith(client, Response.json(fault.toBody(), { status: fault.status, headers: fault.headers }));
    }
  }
}

function connectOptions(
  { host, port, tlsName, run }: ServiceTarget,
  { splice, buffers }: Pick<ConnectOptions, "splice" | "buffers">,
): ConnectOptions {
  return { to: { host, port }, tlsName, run, splice, buffers };
}

/** The request as sent to the service. */
function outgoingRequest(
  client: ClientRequest,
  target: string,
  { port }: SandboxAddress,
  { maskedHost }: ServiceTarget,
): OutgoingRequest {
  const { method } = client;
  const isForRuntime = port === RUNTIME_PORT;
  const isShared = isOnOwnAddress(client.headers);
  // Cookies of the server's own address are those of the login pages.
  const headers = isShared && isForRuntime ? client.headers.without("cookie") : client.headers;
  const isGuest = isForRuntime && method === "GET" && /^\/files(\?|$)/.test(target);
  const upgrade = isForRuntime ? undefined : upgradeOf(client);
  const own = isForRuntime ? ownHeaders(client) : undefined;
  const ownOfResponse = isForRuntime ? idLine(client) : new HeaderLines();
  if (isShared) addOwnAddressLines(ownOfResponse, isForRuntime);
  const withheld = isShared ? (isForRuntime ? WITHHELD_OF_RUNTIME : WITHHELD_OF_SERVICE) : undefined;
  // A new connection for each request: addresses pass from one sandbox to the next, and an idle connection must not.
  const connection = upgrade === undefined ? "Connection: close\r\n" : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`;
  const head = `${method} ${target} HTTP/1.1\r\n${linesTowardsSandbox(headers, maskedHost, own)}${connection}`;
  return { head, isGuest, upgrade, ownOfResponse, withheld };
}

/**
 * The request id as a header of a runtime's response. Services on other ports, and their clients, choose their own
 * headers.
 */
function idLine({ requestId }: ClientRequest): HeaderLines {
  const lines = new HeaderLines();
  lines.append(REQUEST_ID_HEADER, requestId);
  return lines;
}

/** The edge's own headers of requests to control and to a runtime. */
function ownHeaders(client: ClientRequest): HeaderLines {
  const lines = idLine(client);
  if (client.trace !== undefined) lines.append(TRACEPARENT_HEADER, traceparentOf(client.trace.context));
  return lines;
}

function originOf({ requestId, trace }: ClientRequest): RequestOrigin {
  return { id: requestId, trace: trace?.context };
}

/** Refusals that need no lookup of the sandbox. */
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
 * The runtime's health check must not wake the sandbox: clients send it when a stream breaks off, even because of a
 * pause, and would undo every pause of a sandbox with autoResume.
 */
function asksForHealth(method: string, { port }: SandboxAddress, target: string): boolean {
  return method === "GET" && port === RUNTIME_PORT && /^\/health(\?|$)/.test(target);
}

function badRequest(status: 400 | 405 | 500, text: string): Refusal {
  return { reason: "bad-request", status, text };
}
