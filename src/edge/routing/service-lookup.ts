/**
 * Finds the way to a port of a sandbox and checks its traffic token. A sandbox that cannot be reached is waited for,
 * and woken if allowed. A service may listen on every address, only on a loopback address, or be about to start: so a
 * refused connection is retried through the guest's forwarder, and then again for a short while.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Directory, RouteAccess, WakeRefusal } from "../../contract/internal/directory.ts";
import { TRANSITION_ROUNDS_MAX } from "../../contract/limits.ts";
import type { RequestOrigin } from "../../contract/request-id.ts";
import { RUNTIME_PORT } from "../../contract/runtime/version.ts";
import type { ReadHeaders } from "../../http1/header-lines.ts";
import type { Refusal } from "../refusal.ts";
import { LoopbackForwards } from "./loopback-forwards.ts";
import type { Destination, RouteTable, SandboxRun } from "./route-table.ts";
import type { SandboxAddress } from "./sandbox-address.ts";
import { TRAFFIC_TOKEN_HEADER, trafficRefusal } from "./traffic-token.ts";

/** How long a refused connection to a sandbox's port is retried before the port counts as closed. */
export const EDGE_CONNECT_BUDGET_MS = 1000;
/** As EDGE_CONNECT_BUDGET_MS, for the runtime port, which should always be up: its daemon may be restarting. */
const EDGE_RUNTIME_CONNECT_BUDGET_MS = 2000;
/** Pauses between attempts grow by this step up to the maximum: 100, 200, 300, 400, 400 … */
const EDGE_CONNECT_PAUSE_STEP_MS = 100;
const EDGE_CONNECT_PAUSE_MAX_MS = 400;

const ACCESS_TOKEN_HEADER = "x-access-token";

/** Replaced by the requested port in a masked host. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it is what users write.
const MASK_PORT = "${PORT}";
const HOST_NAME = /^(?=.*[a-z])[a-z0-9._-]{1,253}$/i;

const REASONS = {
  "not-found": "sandbox-not-found",
  forbidden: "resume-forbidden",
  "traffic-token-missing": "traffic-token-missing",
  "traffic-token-wrong": "traffic-token-wrong",
  "in-transition": "sandbox-in-transition",
  "limit-reached": "limit-reached",
  unavailable: "resume-unavailable",
} as const satisfies Record<WakeRefusal, Refusal["reason"]>;

/** Reports problems to the operator that the client does not see. */
export type EdgeLog = (message: string, context: Record<string, unknown>) => void;

/** Address of a port of a sandbox, and how to talk to its service. */
export interface ServiceTarget {
  host: string;
  port: number;
  /** TLS server name of the service. Undefined: no TLS. */
  tlsName: string | undefined;
  /** Host header for the service. Null: the client's. */
  maskedHost: string | null;
  run: SandboxRun;
}

/** One attempt. It must leave the request untouched when the connection is refused, because it may be repeated. */
type Attempt = (way: ServiceTarget) => Promise<void>;

/** The request: its headers with tokens, how long its client waits, and whether it may resume a paused sandbox. */
interface WaitingRequest {
  headers: ReadHeaders;
  origin: RequestOrigin;
  /** Created on first access, so only read where there is something to wait for. */
  readonly signal: AbortSignal;
  mayWake: boolean;
}

export class ServiceLookup {
  readonly #forwards: LoopbackForwards;

  constructor(
    private readonly directory: Directory,
    private readonly routes: Pick<RouteTable, "find">,
    private readonly log: EdgeLog,
  ) {
    this.#forwards = new LoopbackForwards(directory);
  }

  /** The destination of a sandbox that the table lacks, once it can be reached again. */
  async untilAwake(address: SandboxAddress, request: Omit<WaitingRequest, "signal">): Promise<Destination | Refusal> {
    for (let wakes = 0; wakes <= TRANSITION_ROUNDS_MAX; wakes++) {
      const refusal = await this.#wake(address, request);
      if (refusal !== undefined) return refusal;
      const reached = this.routes.find(address.sandboxId);
      if (reached !== undefined) return reached;
    }
    return inTransition(address);
  }

  /** The way to a port if no call and no wait is needed. Undefined: use `tryUntilReached`. */
  directTarget(
    address: SandboxAddress,
    headers: ReadHeaders,
    { endpoint, access, run }: Destination,
  ): ServiceTarget | undefined {
    const { host, runtimePort, ownPorts } = endpoint;
    if (trafficRefusal(access, address.port, headers.get(TRAFFIC_TOKEN_HEADER)) !== undefined) return undefined;
    if (address.port === RUNTIME_PORT) return { host, port: runtimePort, tlsName: undefined, maskedHost: null, run };
    if (!ownPorts || this.#forwards.known(address, host) !== undefined) return undefined;
    const { tlsName, maskedHost } = hostHeaderAndTls(address, headers, access);
    return { host, port: address.port, tlsName, maskedHost, run };
  }

  /** Tries every way until an attempt succeeds, for as long as that is worthwhile. */
  async tryUntilReached(
    address: SandboxAddress,
    request: WaitingRequest,
    attempt: Attempt,
  ): Promise<Refusal | undefined> {
    const budgetMs = address.port === RUNTIME_PORT ? EDGE_RUNTIME_CONNECT_BUDGET_MS : EDGE_CONNECT_BUDGET_MS;
    let startedMs = performance.now();
    let wakes = 0;
    for (let tries = 1; ; tries += 1) {
      // Looked up for each attempt: the sandbox may have ended or moved since the last one.
      const destination = this.routes.find(address.sandboxId);
      if (destination === undefined) {
        if (request.signal.aborted) return closed(address);
        const refusal = await this.#wake(address, request);
        if (refusal !== undefined) return refusal;
        if (++wakes > TRANSITION_ROUNDS_MAX) return inTransition(address);
        // Its services were away too: they get the full time again.
        startedMs = performance.now();
        tries = 0;
        continue;
      }
      const reason = trafficRefusal(destination.access, address.port, request.headers.get(TRAFFIC_TOKEN_HEADER));
      if (reason !== undefined) return { reason, sandboxId: address.sandboxId };
      const triedMs = performance.now();
      try {
        await this.#tryEveryPort(address, request, destination, attempt);
        return undefined;
      } catch (failure) {
        if (isUnsent(failure) && destination.run.isOver) continue;
        if (!isRefused(failure)) return await this.#refusalOnceSent(address, request, destination.run);
      }
      // Measured from the start of the attempt: it may have been slow, and the service may have started meanwhile.
      const endMs = startedMs + budgetMs;
      if (triedMs >= endMs) return closed(address);
      const leftMs = Math.max(0, endMs - performance.now());
      const pauseMs = Math.min(tries * EDGE_CONNECT_PAUSE_STEP_MS, EDGE_CONNECT_PAUSE_MAX_MS, leftMs);
      if (!(await paused(pauseMs, request.signal))) return closed(address);
    }
  }

  /** Undefined: it can be reached, or could a moment ago. */
  async #wake(
    { sandboxId, port }: SandboxAddress,
    { headers, origin, mayWake }: Omit<WaitingRequest, "signal">,
  ): Promise<Refusal | undefined> {
    const accessToken = headers.get(ACCESS_TOKEN_HEADER);
    const trafficToken = headers.get(TRAFFIC_TOKEN_HEADER);
    const woken = await this.directory.wake(sandboxId, { port, accessToken, trafficToken, mayWake, origin });
    return "woken" in woken ? undefined : { reason: REASONS[woken.refused], sandboxId };
  }

  /** Throws the error of the last attempt; ECONNREFUSED only if every way was refused. */
  async #tryEveryPort(
    address: SandboxAddress,
    { headers, origin }: WaitingRequest,
    { endpoint, access, run }: Destination,
    attempt: Attempt,
  ): Promise<void> {
    const { host, runtimePort, ownPorts } = endpoint;
    if (address.port === RUNTIME_PORT) {
      return await attempt({ host, port: runtimePort, tlsName: undefined, maskedHost: null, run });
    }
    const { tlsName, maskedHost } = hostHeaderAndTls(address, headers, access);
    const tryAt = (port: number) => attempt({ host, port, tlsName, maskedHost, run });
    const tryForward = (port: number) =>
      tryAt(port).catch((failure: unknown) => {
        this.#forwards.forget(address);
        throw failure;
      });
    const known = await this.#forwards.known(address, host)?.catch(() => undefined);
    try {
      if (known !== undefined) return await tryForward(known);
    } catch (failure) {
      if (!isRefused(failure)) throw failure;
    }
    try {
      if (!ownPorts) throw portOfAnother();
      return await tryAt(address.port);
    } catch (failure) {
      if (!isRefused(failure)) throw failure;
      const port = await this.#openForward(address, host, origin.id);
      if (port === undefined) throw failure;
      return await tryForward(port);
    }
  }

  async #openForward(address: SandboxAddress, host: string, request: string): Promise<number | undefined> {
    try {
      return await this.#forwards.ask(address, host);
    } catch (failure) {
      this.log("asking a sandbox for the way to a loopback service failed", { ...address, request, failure });
      return undefined;
    }
  }

  /** The refusal after that way failed. Undefined: the request was not sent, and can be tried in other ways. */
  async refusalAfter(
    address: SandboxAddress,
    request: Omit<WaitingRequest, "signal" | "mayWake">,
    { run }: ServiceTarget,
    failure: unknown,
  ): Promise<Refusal | undefined> {
    if (isRefused(failure) || (isUnsent(failure) && run.isOver)) return undefined;
    return await this.#refusalOnceSent(address, request, run);
  }

  /**
   * A request that was sent may have had its effect, so it is not sent again to the next run. The connection may end
   * before this process learns that the sandbox is being paused.
   */
  async #refusalOnceSent(
    address: SandboxAddress,
    { headers, origin }: Omit<WaitingRequest, "signal" | "mayWake">,
    run: SandboxRun,
  ): Promise<Refusal> {
    const left: Refusal = { reason: "sandbox-left", sandboxId: address.sandboxId };
    const isOpen = () => this.routes.find(address.sandboxId)?.run === run;
    if (!isOpen()) return left;
    try {
      const refusal = await this.#wake(address, { headers, origin, mayWake: false });
      return refusal === undefined && isOpen() ? closed(address) : left;
    } catch (failure) {
      this.log("asking whether a sandbox is still up failed", { ...address, request: origin.id, failure });
      return closed(address);
    }
  }
}

function hostHeaderAndTls(
  { port }: SandboxAddress,
  headers: ReadHeaders,
  { maskRequestHost, httpsPorts }: RouteAccess,
): Pick<ServiceTarget, "tlsName" | "maskedHost"> {
  const maskedHost = maskRequestHost?.replaceAll(MASK_PORT, String(port)) || null;
  const tlsName = httpsPorts.includes(port) ? nameIn(maskedHost ?? headers.get("host")) : undefined;
  return { tlsName, maskedHost };
}

/** The host name without its port, for TLS. For an address it is `localhost`, which every service is to itself. */
function nameIn(host: string | null): string {
  const name = host?.replace(/:\d*$/, "") ?? "";
  return HOST_NAME.test(name) ? name : "localhost";
}

/** Acts like a refused connection: the host is shared, so this port of it is not the sandbox's. */
function portOfAnother(): Error {
  return Object.assign(new Error("the host is not the sandbox's own"), { code: "ECONNREFUSED" });
}

function closed({ sandboxId, port }: SandboxAddress): Refusal {
  return { reason: "closed-port", sandboxId, port };
}

function inTransition({ sandboxId }: SandboxAddress): Refusal {
  return { reason: "sandbox-in-transition", sandboxId };
}

function isRefused(failure: unknown): boolean {
  return failure instanceof Error && "code" in failure && failure.code === "ECONNREFUSED";
}

function isUnsent(failure: unknown): boolean {
  return failure instanceof Error && "code" in failure && failure.code === "ENOTCONN";
}

/** False: the client left meanwhile. */
async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await pause(ms, undefined, { signal });
    return true;
  } catch (failure) {
    if (signal.aborted) return false;
    throw failure;
  }
}
