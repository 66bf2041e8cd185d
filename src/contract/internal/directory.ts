/**
 * What the edge is told and may ask: where sandboxes are, to wake one, and whose a signed link is. Like the host's door
 * it can be a network call: plain data, promises, and events in their order. What every request needs, the edge has in
 * a table of its own that these events keep; it asks only when a sandbox is not in there, or a service is not where it
 * was looked for.
 */
import type { SignedLink } from "../runtime/file-signature.ts";
import type { Endpoint } from "./host.ts";

export interface Directory {
  /**
   * From now on this listener is told where sandboxes can be reached: first of all of them, then of each change, at
   * once and before the answer to any call that it precedes. It must not throw.
   */
  follow(listener: (event: RouteEvent) => void): void;

  /**
   * Has a sandbox that has no open route reached again. One that is between two states is waited for, a paused one is
   * woken if its creator allows it and the credentials do. However many ask at once, it is woken once; that nobody
   * waits any more does not stop it. When it answers `woken`, its route has been told.
   */
  wake(sandboxId: string, request: WakeRequest): Promise<Wake>;

  /**
   * A port at the sandbox's endpoint that leads to a service on `port`, also one on a loopback address; or undefined.
   */
  forward(sandboxId: string, port: number): Promise<number | undefined>;

  /** The sandbox, running or paused, that a signed file link opens. Fault 429 when `client` has guessed too often. */
  findSigned(link: SignedLink, client: string): Promise<string | undefined>;
}

/** The way to one run of a sandbox. */
export interface Route {
  sandboxId: string;
  /** Another run of the same sandbox has another. */
  runId: string;
  endpoint: Endpoint;
  access: RouteAccess;
  /** False: nobody new is led there. What is carried already goes on, because it may turn out that the run does. */
  isOpen: boolean;
}

/** Who is let through to a sandbox, and as what. */
export interface RouteAccess {
  /** Whose it is: a team is carried only so many requests at once. */
  teamId: string;
  /** Requests to all ports but the runtime's must have it as `e2b-traffic-access-token`; null: anybody passes. */
  trafficToken: string | null;
  /** The runtime asks for no token of its own, so the traffic token is demanded on its port, too. */
  guardsRuntime: boolean;
  /** What services on all ports but the runtime's are told as Host; `${PORT}` in it is the port. Null: as it came. */
  maskRequestHost: string | null;
  /** Ports where the service speaks TLS; its certificate is not looked at. */
  httpsPorts: readonly number[];
}

export type RouteEvent =
  /** All there are; runs that are not named are over. */
  | { kind: "table"; routes: readonly Route[] }
  /** Of a run that was not known, or that changed. */
  | { kind: "route"; route: Route }
  /** What is carried to this run must end. */
  | { kind: "over"; sandboxId: string; runId: string };

export interface WakeRequest {
  port: number;
  /** The request's X-Access-Token. */
  accessToken: string | null;
  /** Its E2b-Traffic-Access-Token. */
  trafficToken: string | null;
  /** False: it only asks whether the sandbox is up. It joins a start that is under way and begins none. */
  mayWake: boolean;
}

export type Wake = { woken: true } | { refused: WakeRefusal };

/** `unavailable`: the machine has no room or no time for it just now, or the server is stopping. */
export type WakeRefusal =
  | "not-found"
  | "forbidden"
  | "traffic-token-missing"
  | "traffic-token-wrong"
  | "in-transition"
  | "limit-reached"
  | "unavailable";
