/**
 * Routes for the edge processes: each with the indexes of its shared counters. A process that starts late gets all of
 * them.
 */
import type { Route, RouteEvent } from "../../contract/internal/directory.ts";
import { EDGE_COUNTS_MAX } from "../limits.ts";
import type { PlacedEvent, PlacedRoute } from "../routing/route-table.ts";
import type { SharedCounts } from "./shared-counts.ts";

interface Numbered {
  number: number;
  uses: number;
}

export class NumberedRoutes {
  readonly #routes = new Map<string, PlacedRoute>();
  /** Numbers by sandbox or team. */
  readonly #numbers = new Map<string, Numbered>();
  /** Indexes that were used before; their counts may not be zero yet. */
  readonly #free: number[] = [];
  #unused = 0;

  constructor(private readonly counts: Pick<SharedCounts, "sum">) {}

  get table(): PlacedEvent {
    return { kind: "table", routes: [...this.#routes.values()] };
  }

  take(event: RouteEvent): PlacedEvent {
    switch (event.kind) {
      case "table": {
        const there = new Set(event.routes.map(({ sandboxId }) => sandboxId));
        for (const sandboxId of [...this.#routes.keys()]) if (!there.has(sandboxId)) this.#remove(sandboxId);
        for (const route of event.routes) this.#enter(route);
        return this.table;
      }
      case "route":
        return { kind: "route", route: this.#enter(event.route) };
      case "over":
        if (this.#routes.get(event.sandboxId)?.runId === event.runId) this.#remove(event.sandboxId);
        return event;
    }
  }

  #enter(route: Route): PlacedRoute {
    const before = this.#routes.get(route.sandboxId);
    const places = before?.places ?? this.#place(route);
    const placed = { ...route, ...(places !== undefined && { places }) };
    this.#routes.set(route.sandboxId, placed);
    return placed;
  }

  #remove(sandboxId: string): void {
    const route = this.#routes.get(sandboxId);
    this.#routes.delete(sandboxId);
    if (route?.places === undefined) return;
    this.#drop(sandboxKey(sandboxId));
    this.#drop(teamKey(route.access.teamId));
  }

  /** Undefined: all indexes are taken, and each process counts on its own. */
  #place({ sandboxId, access }: Route): PlacedRoute["places"] {
    const team = this.#hold(teamKey(access.teamId));
    if (team === undefined) return undefined;
    const sandbox = this.#hold(sandboxKey(sandboxId));
    if (sandbox !== undefined) return { sandbox, team };
    this.#drop(teamKey(access.teamId));
    return undefined;
  }

  #hold(key: string): number | undefined {
    const known = this.#numbers.get(key);
    if (known !== undefined) {
      known.uses += 1;
      return known.number;
    }
    const number = this.#next();
    if (number !== undefined) this.#numbers.set(key, { number, uses: 1 });
    return number;
  }

  #drop(key: string): void {
    const known = this.#numbers.get(key);
    if (known === undefined || --known.uses > 0) return;
    this.#numbers.delete(key);
    this.#free.push(known.number);
  }

  /** An index whose count is zero. */
  #next(): number | undefined {
    const at = this.#free.findIndex((number) => this.counts.sum(number) === 0);
    if (at >= 0) return this.#free.splice(at, 1)[0];
    return this.#unused < EDGE_COUNTS_MAX ? this.#unused++ : undefined;
  }
}

const sandboxKey = (id: string) => `sandbox ${id}`;
const teamKey = (id: string) => `team ${id}`;
