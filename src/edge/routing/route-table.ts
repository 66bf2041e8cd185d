/**
 * Where sandboxes are, as control has told: a look-up costs no question to anybody. With each way comes a signal for
 * the end of that run of the sandbox; it is made here, because a signal cannot travel.
 */
import type { Route, RouteEvent } from "../../contract/internal/directory.ts";

/** Where what is carried to a sandbox is counted, and to all of its team, if several processes count together. */
interface PlaceNumbers {
  sandbox: number;
  team: number;
}

export type PlacedRoute = Route & { places?: PlaceNumbers };

export type PlacedEvent = Exclude<RouteEvent, { kind: "table" | "route" }> | PlacedTable | PlacedChange;
interface PlacedTable {
  kind: "table";
  routes: readonly PlacedRoute[];
}
interface PlacedChange {
  kind: "route";
  route: PlacedRoute;
}

export interface Destination {
  endpoint: Route["endpoint"];
  /** As it is now: it may change while a run goes on, and what is carried already goes on with it. */
  access: Route["access"];
  /** Aborted when this run of the sandbox is over: what is carried to it must end then. */
  ended: AbortSignal;
  places: PlaceNumbers | undefined;
}

interface Entry extends Destination {
  runId: string;
  isOpen: boolean;
  over: AbortController;
}

export class RouteTable {
  readonly #entries = new Map<string, Entry>();

  /** Undefined: unknown, ended, not running, or not to be reached just now; the directory's `wake` knows which. */
  find(sandboxId: string): Destination | undefined {
    const entry = this.#entries.get(sandboxId);
    return entry?.isOpen ? entry : undefined;
  }

  /** What the directory tells. Never throws and never waits. */
  take(event: PlacedEvent): void {
    switch (event.kind) {
      case "table": {
        const there = new Set(event.routes.map(({ sandboxId }) => sandboxId));
        for (const sandboxId of [...this.#entries.keys()]) if (!there.has(sandboxId)) this.#remove(sandboxId);
        for (const route of event.routes) this.#enter(route);
        return;
      }
      case "route":
        this.#enter(event.route);
        return;
      case "over":
        if (this.#entries.get(event.sandboxId)?.runId === event.runId) this.#remove(event.sandboxId);
    }
  }

  /**
   * This address will be another sandbox's: whatever is carried there must end, and nobody is led there, whether or not
   * it has been told that the run is over.
   */
  leave(host: string): void {
    for (const [sandboxId, { endpoint }] of [...this.#entries]) if (endpoint.host === host) this.#remove(sandboxId);
  }

  #enter({ sandboxId, runId, endpoint, access, isOpen, places }: PlacedRoute): void {
    const before = this.#entries.get(sandboxId);
    const isSameRun = before?.runId === runId;
    if (!isSameRun) this.#remove(sandboxId);
    const over = isSameRun ? before.over : new AbortController();
    this.#entries.set(sandboxId, { runId, endpoint, access, isOpen, over, ended: over.signal, places });
  }

  #remove(sandboxId: string): void {
    const entry = this.#entries.get(sandboxId);
    this.#entries.delete(sandboxId);
    entry?.over.abort(new Error("the sandbox has been paused or has ended"));
  }
}
