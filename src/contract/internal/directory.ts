/**
 * The interface from the edge to control: where sandboxes are, waking one, and the owner of a signed link. Like the
 * host's interface it can be a network call: plain data, promises, and ordered events. The edge keeps its own table
 * from these events for every request; it calls only when a sandbox is missing there, or a service is not found.
 */
import type { RequestOrigin } from "../request-id.ts";
import type { SignedLink } from "../runtime/file-signature.ts";
import type { Endpoint } from "./host.ts";

export interface Directory {
  /**
   * Sends the routes to this listener from now on: first all of them, then each change, immediately and before the
   * result of any later call. It must not throw.
   */
  follow(listener: (event: RouteEvent) => void): void;

  /**
   * Makes a sandbox without an open route reachable. One in transition is waited for; a paused one is woken if its
   * creator and the credentials allow it. Concurrent calls wake it once, and the wake continues when its callers leave.
   * After `woken`, its route has already been sent.
   */
  wake(sandboxId: string, request: WakeRequest): Promise<Wake>;

  /**
   * A port at the sandbox's endpoint that leads to a service on `port`, including one on a loopback address; or
   * undefined.
   */
  forward(sandboxId: string, port: number): Promise<number | undefined>;

  /** The sandbox, running or paused, that a signed file link opens. Fault 429 when `client` has guessed too often. */
  findSigned(link: SignedLink, client: string): Promise<string | undefined>;
}

/** The route to one run of a sandbox. */
export interface Route {
  sandboxId: string;
  /** Differs between runs of the same sandbox. */
  runId: string;
  endpoint: Endpoint;
  access: RouteAccess;
  /** False: new requests are refused. Open connections continue, because the run may continue. */
  isOpen: boolean;
}

/** Access rules of a sandbox. */
export interface RouteAccess {
  /** The owner: concurrent requests are limited per team. */
  teamId: string;
  /** Required as `e2b-traffic-access-token` on all ports but the runtime's; null: no token required. */
  trafficToken: string | null;
  /** The runtime has no token of its own, so its port requires the traffic token too. */
  guardsRuntime: boolean;
  /** Host header for services on all ports but the runtime's; `${PORT}` in it is the port. Null: unchanged. */
  maskRequestHost: string | null;
  /** Ports where the service uses TLS; its certificate is not verified. */
  httpsPorts: readonly number[];
}

export type RouteEvent =
  /** All routes. Runs that are not listed are over. */
  | { kind: "table"; routes: readonly Route[] }
  /** A new or changed run. */
  | { kind: "route"; route: Route }
  /** All connections to this run must end. */
  | { kind: "over"; sandboxId: string; runId: string };

export interface WakeRequest {
  port: number;
  /** The request's X-Access-Token. */
  accessToken: string | null;
  /** The request's E2b-Traffic-Access-Token. */
  trafficToken: string | null;
  /** False: the request only checks whether the sandbox is up. It joins a start in progress but begins none. */
  mayWake: boolean;
  /** The request, for the log and traces. */
  origin?: RequestOrigin;
}

export type Wake = { woken: true } | { refused: WakeRefusal };

/** `unavailable`: the machine is out of capacity or time, or the server is stopping. */
export type WakeRefusal =
  | "not-found"
  | "forbidden"
  | "traffic-token-missing"
  | "traffic-token-wrong"
  | "in-transition"
  | "limit-reached"
  | "unavailable";
