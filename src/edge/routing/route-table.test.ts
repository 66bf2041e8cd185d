import { expect, test } from "bun:test";
import type { Route } from "../../contract/internal/directory.ts";
import { RouteTable } from "./route-table.ts";

const endpoint = { host: "10.0.0.1", runtimePort: 49_983, ownPorts: true };
const access = { teamId: "team", trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
const route = (changes: Partial<Route> = {}): Route => ({
  sandboxId: "a",
  runId: "a1",
  endpoint,
  access,
  isOpen: true,
  ...changes,
});

function tableWith(...routes: Route[]): RouteTable {
  const table = new RouteTable();
  table.take({ kind: "table", routes });
  return table;
}

test("a sandbox is found at its announced address, and not before", () => {
  const table = tableWith(route());
  expect(table.find("a")?.endpoint).toEqual(endpoint);
  expect(table.find("b")).toBeUndefined();
  table.take({ kind: "route", route: route({ endpoint: { ...endpoint, host: "10.0.0.2" } }) });
  expect(table.find("a")?.endpoint.host).toBe("10.0.0.2");
});

test("a closed route accepts no request, open exchanges continue, and reopening continues the run", () => {
  const table = tableWith(route());
  const first = table.find("a");
  table.take({ kind: "route", route: route({ isOpen: false }) });
  expect([table.find("a"), first?.run.isOver]).toEqual([undefined, false]);
  table.take({ kind: "route", route: route() });
  expect(table.find("a")?.run).toBe(first?.run);
});

test("an ended run has no route at once, and its connections end, also if the route was closed", () => {
  const table = tableWith(route(), route({ sandboxId: "b", runId: "b1" }));
  const [a, b] = [table.find("a"), table.find("b")];
  table.take({ kind: "route", route: route({ sandboxId: "b", runId: "b1", isOpen: false }) });
  table.take({ kind: "over", sandboxId: "a", runId: "a1" });
  table.take({ kind: "over", sandboxId: "b", runId: "b1" });
  expect([table.find("a"), table.find("b")]).toEqual([undefined, undefined]);
  expect([a?.run.isOver, b?.run.isOver]).toEqual([true, true]);
});

test("a late end of an earlier run does not affect the next; a new run ends the previous one", () => {
  const table = tableWith(route());
  const first = table.find("a");
  table.take({ kind: "route", route: route({ runId: "a2" }) });
  expect(first?.run.isOver).toBe(true);
  table.take({ kind: "over", sandboxId: "a", runId: "a1" });
  expect(table.find("a")?.run.isOver).toBe(false);
});

test("after a lost connection a new table ends the runs that it does not name and keeps the rest", () => {
  const table = tableWith(route(), route({ sandboxId: "b", runId: "b1" }));
  const [a, b] = [table.find("a"), table.find("b")];
  table.take({ kind: "table", routes: [route({ sandboxId: "b", runId: "b1" })] });
  expect([a?.run.isOver, b?.run.isOver]).toEqual([true, false]);
  expect(table.find("a")).toBeUndefined();
  expect(table.find("b")?.run).toBe(b?.run);
});

test("access rules may change within a run, and open exchanges continue", () => {
  const table = tableWith(route());
  const first = table.find("a");
  table.take({ kind: "route", route: route({ access: { ...access, trafficToken: "t" } }) });
  expect(table.find("a")?.access.trafficToken).toBe("t");
  expect([table.find("a")?.run === first?.run, first?.run.isOver]).toEqual([true, false]);
});
