import { expect, test } from "bun:test";
import type { Route } from "../../contract/internal/directory.ts";
import { EDGE_COUNTS_MAX } from "../limits.ts";
import type { PlacedEvent } from "../routing/route-table.ts";
import { NumberedRoutes } from "./numbered-routes.ts";
import { countsBytes, SharedCounts } from "./shared-counts.ts";
import { SharedQuota } from "./shared-quota.ts";

const PROCESSES = 2;
const LIMITS = { perSandbox: 3, perTeam: 4 };

function fixture() {
  const counts = new SharedCounts(new Uint8Array(countsBytes(PROCESSES)), PROCESSES);
  const places = [0, 1].map((process) => new SharedQuota(counts, process, PROCESSES, LIMITS)) as [
    SharedQuota,
    SharedQuota,
  ];
  return { counts, routes: new NumberedRoutes(counts), places };
}

function route(sandboxId: string, teamId = "team", runId = "run"): Route {
  const access = { teamId, trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
  return { sandboxId, runId, endpoint: { host: "h", runtimePort: 1, ownPorts: true }, access, isOpen: true };
}

/** As a process of the edge has it. */
function reportOf(event: PlacedEvent) {
  if (event.kind !== "route") throw new Error(`told of ${event.kind}`);
  const { sandboxId, access, places } = event.route;
  return { sandboxId, destination: { access, places } };
}

const numbersOf = (event: PlacedEvent) => reportOf(event).destination.places;

test("connections are counted over all processes per sandbox and team, and freed", () => {
  const { routes, places } = fixture();
  const [a, b] = ["a", "b"].map((id) => reportOf(routes.take({ kind: "route", route: route(id) })));
  if (a === undefined || b === undefined) throw new Error("not told");
  const take = (process: 0 | 1, { sandboxId, destination }: typeof a) => places[process].take(sandboxId, destination);
  const held = [take(0, a), take(1, a), take(1, a)];
  expect(take(0, a)).toEqual({ full: "sandbox", max: 3 });
  expect(take(0, b)).toHaveProperty("release");
  expect(take(1, b)).toEqual({ full: "team", max: 4 });
  const [first] = held;
  if (first === undefined || "full" in first) throw new Error("there was no place");
  first.release();
  expect(take(1, b)).toHaveProperty("release");
});

test("requests to unreachable sandboxes are counted by each process, with its share of the limit", () => {
  const { places } = fixture();
  expect(places[0].take("a", undefined)).toHaveProperty("release");
  expect(places[0].take("a", undefined)).toEqual({ full: "sandbox", max: 1 });
  expect(places[1].take("a", undefined)).toHaveProperty("release");
});

test("connections of a dead process no longer count", () => {
  const { counts } = fixture();
  expect([counts.add(7, 0, 2), counts.add(7, 1, 2), counts.add(7, 1, 2)]).toEqual([true, true, false]);
  counts.clear(1);
  expect(counts.sum(7)).toBe(1);
});

test("a sandbox keeps its counter through runs, and it is reused when its count is zero", () => {
  const { counts, routes } = fixture();
  const first = numbersOf(routes.take({ kind: "route", route: route("a") }));
  expect(numbersOf(routes.take({ kind: "route", route: route("a", "team", "next") }))).toEqual(first);
  expect(routes.table).toEqual({ kind: "table", routes: [expect.objectContaining({ runId: "next", places: first })] });
  counts.add(first?.sandbox ?? -1, 1, 9);
  routes.take({ kind: "over", sandboxId: "a", runId: "run" });
  expect(routes.table).toMatchObject({ routes: [{ sandboxId: "a" }] });
  routes.take({ kind: "over", sandboxId: "a", runId: "next" });
  expect(routes.table).toEqual({ kind: "table", routes: [] });

  const second = numbersOf(routes.take({ kind: "route", route: route("b", "another") }));
  expect([second?.sandbox, second?.team]).not.toContain(first?.sandbox);
  counts.remove(first?.sandbox ?? -1, 1);
  const third = numbersOf(routes.take({ kind: "route", route: route("c", "a third") }));
  expect([third?.sandbox, third?.team]).toContain(first?.sandbox);
});

test("a team has one counter for all its sandboxes, until the last ends", () => {
  const { routes } = fixture();
  const [a, b] = ["a", "b"].map((id) => numbersOf(routes.take({ kind: "route", route: route(id) })));
  expect(a?.team).toBe(b?.team);
  routes.take({ kind: "over", sandboxId: "a", runId: "run" });
  expect(numbersOf(routes.take({ kind: "route", route: route("c") }))?.team).toBe(b?.team);
});

test("a new table replaces all counters, and without a free counter there is none", () => {
  const { routes } = fixture();
  const many = Array.from({ length: EDGE_COUNTS_MAX }, (_, at) => route(`s${at}`));
  const table = routes.take({ kind: "table", routes: many });
  if (table.kind !== "table") throw new Error("no table");
  expect(table.routes.filter(({ places }) => places === undefined)).toHaveLength(1);
  expect(routes.take({ kind: "table", routes: [route("a")] })).toMatchObject({ routes: [{ sandboxId: "a" }] });
  expect(numbersOf(routes.take({ kind: "route", route: route("b") }))).toBeDefined();
});
