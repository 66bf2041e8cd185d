/**
 * The routes to sandboxes, from control's events, so that a lookup needs no call. The end of a run ends its
 * connections.
 */
import type { Route, RouteEvent } from "../../contract/internal/directory.ts";
import { HeldBytes } from "../flow/held-bytes.ts";

/** One run of a sandbox, as an edge process sees it: its open connections, which end with the run, and their budget. */
export class SandboxRun {
  readonly connections = new Set<{ cut(): void }>();
  /** Bytes buffered for its connections. */
  readonly held = new HeldBytes();
  /** Concurrent splices of its connections. */
  splicings = 0;
  isOver = false;

  /** When it returns, the run has no connection left. */
  end(): void {
    this.isOver = true;
    for (const connection of [...this.connections]) connection.cut();
  }
}

/** Indexes of the shared counters of a sandbox and its team, if several processes count together. */
interface PlaceNumbers {
  sandbox: number;
  team: number;
}

export type PlacedRoute = Route & { places?: PlaceNumbers };

export type PlacedEvent =
  | Exclude<RouteEvent, { kind: "table" | "route" }>
  | { kind: "table"; routes: readonly PlacedRoute[] }
  | { kind: "route"; route: PlacedRoute };

export interface Destination {
  endpoint: Route["endpoint"];
  /** The current rules: they may change during a run, and open connections continue. */
  access: Route["access"];
  run: SandboxRun;
  places: PlaceNumbers | undefined;
}

interface Entry extends Destination {
  runId: string;
  isOpen: boolean;
}

export class RouteTable {
  readonly #entries = new Map<string, Entry>();

  /** Undefined: unknown, ended, not running, or not reachable just now; the directory's `wake` knows which. */
  find(sandboxId: string): Destination | undefined {
    const entry = this.#entries.get(sandboxId);
    return entry?.isOpen ? entry : undefined;
  }

  /** Events of the directory. Never throws and never waits. */
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
   * This address will belong to another sandbox: its connections must end and its routes go, even if no event has said
   * that the run is over.
   */
  closeConnectionsTo(host: string): void {
    for (const [sandboxId, { endpoint }] of [...this.#entries]) if (endpoint.host === host) this.#remove(sandboxId);
  }

  #enter({ sandboxId, runId, endpoint, access, isOpen, places }: PlacedRoute): void {
    const before = this.#entries.get(sandboxId);
    const isSameRun = before?.runId === runId;
    if (!isSameRun) this.#remove(sandboxId);
    const run = isSameRun ? before.run : new SandboxRun();
    this.#entries.set(sandboxId, { runId, endpoint, access, isOpen, run, places });
  }

  #remove(sandboxId: string): void {
    const entry = this.#entries.get(sandboxId);
    this.#entries.delete(sandboxId);
    entry?.run.end();
  }
}
