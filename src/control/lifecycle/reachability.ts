/**
 * Routes to sandboxes: which can be reached now, and at which endpoint. The host says whether a sandbox is up and
 * where; control says whether traffic may go there. Followers such as the edge get each change before the call that
 * made it returns, so a hidden or ended run is closed everywhere at once.
 */
import type { Route, RouteAccess, RouteEvent } from "../../contract/internal/directory.ts";
import type { Endpoint, HostEvent } from "../../contract/internal/host.ts";
import type { Sandbox } from "../../store/sandboxes.ts";

interface Run {
  id: string;
  access: RouteAccess;
  hidden: boolean;
}

export class Reachability {
  /** Endpoints that the host reports. */
  readonly #endpoints = new Map<string, Endpoint>();
  /** Runs that control has begun. */
  readonly #runs = new Map<string, Run>();
  /** The last route sent to followers, for each run that has ever been up. */
  readonly #routes = new Map<string, Route>();
  readonly #listeners: ((event: RouteEvent) => void)[] = [];

  follow(listener: (event: RouteEvent) => void): void {
    this.#listeners.push(listener);
    listener({ kind: "table", routes: [...this.#routes.values()] });
  }

  onHostEvent(event: HostEvent): void {
    switch (event.kind) {
      case "inventory": {
        const there = new Set(event.reachable.map(({ id }) => id));
        for (const id of [...this.#endpoints.keys()]) if (!there.has(id)) this.#setEndpoint(id, undefined);
        for (const { id, endpoint } of event.reachable) this.#setEndpoint(id, endpoint);
        return;
      }
      case "reachable":
        this.#setEndpoint(event.id, event.endpoint);
        return;
      case "unreachable":
        this.#setEndpoint(event.id, undefined);
        return;
      case "lost":
        this.#setEndpoint(event.id, undefined);
        this.end(event.id);
    }
  }

  /** Whether the host says that it is up. */
  isUp(id: string): boolean {
    return this.#endpoints.has(id);
  }

  /** The execution id of the run that control has begun. */
  runOf(id: string): string | undefined {
    return this.#runs.get(id)?.id;
  }

  /** A run has begun. */
  begin(sandbox: Sandbox): void {
    this.#runs.set(sandbox.id, { id: sandbox.executionId, access: accessOf(sandbox), hidden: false });
    this.#update(sandbox.id);
  }

  /** Refuses new requests. Open connections continue, because the transition may fail and leave the sandbox running. */
  hide(id: string): void {
    this.#setHidden(id, true);
  }

  show(id: string): void {
    this.#setHidden(id, false);
  }

  isHidden(id: string): boolean {
    return this.#runs.get(id)?.hidden === true;
  }

  /** Ends the run and every connection to it. */
  end(id: string): void {
    const runId = this.#runs.get(id)?.id;
    this.#runs.delete(id);
    this.#routes.delete(id);
    if (runId !== undefined) this.#emit({ kind: "over", sandboxId: id, runId });
  }

  isReachable(id: string): boolean {
    return this.#routes.get(id)?.isOpen === true;
  }

  #setEndpoint(id: string, endpoint: Endpoint | undefined): void {
    if (endpoint === undefined) this.#endpoints.delete(id);
    else this.#endpoints.set(id, endpoint);
    this.#update(id);
  }

  #setHidden(id: string, hidden: boolean): void {
    const run = this.#runs.get(id);
    if (run === undefined) return;
    run.hidden = hidden;
    this.#update(id);
  }

  #update(sandboxId: string): void {
    const run = this.#runs.get(sandboxId);
    const before = this.#routes.get(sandboxId);
    const up = this.#endpoints.get(sandboxId);
    const endpoint = up ?? before?.endpoint;
    if (run === undefined || endpoint === undefined) return;
    const isOpen = up !== undefined && !run.hidden;
    const isKnown = before?.runId === run.id && before.endpoint === endpoint;
    if (isKnown && before.isOpen === isOpen) return;
    const route = { sandboxId, runId: run.id, endpoint, access: run.access, isOpen };
    this.#routes.set(sandboxId, route);
    this.#emit({ kind: "route", route });
  }

  #emit(event: RouteEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

function accessOf({ teamId, network, trafficToken, secure }: Sandbox): RouteAccess {
  return {
    teamId,
    trafficToken,
    // The runtime port has no token of its own then, so the traffic token guards it.
    guardsRuntime: trafficToken !== null && !secure,
    maskRequestHost: network.maskRequestHost ?? null,
    httpsPorts: network.httpsPorts ?? [],
  };
}
