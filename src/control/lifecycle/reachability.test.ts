/** Routes combine what the host and control know, and are published at once. */
import { beforeEach, describe, expect, test } from "bun:test";
import type { RouteEvent } from "../../contract/internal/directory.ts";
import { aSandbox } from "../../store/testing/rows.ts";
import { Reachability } from "./reachability.ts";

const endpoint = { host: "10.0.0.1", runtimePort: 49_983, ownPorts: true };
const id = "i1";
const run = aSandbox(id, { executionId: "r1" });
const access = { teamId: run.teamId, trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };

let reachability: Reachability;
let reported: RouteEvent[];
beforeEach(() => {
  reachability = new Reachability();
  reported = [];
  reachability.follow((event) => void reported.push(event));
});

/** A summary of the events since the last call. */
function received(): unknown[] {
  return reported
    .splice(0)
    .map((event) =>
      event.kind === "route"
        ? [event.route.runId, event.route.isOpen ? "open" : "closed"]
        : event.kind === "over"
          ? [event.runId, "over"]
          : event.routes.map(({ runId }) => runId),
    );
}

function up(): void {
  reachability.onHostEvent({ kind: "reachable", id, endpoint });
  reachability.begin(run);
  received();
}

test("a route is published when host and control both report the run, in either order", () => {
  reachability.onHostEvent({ kind: "reachable", id, endpoint });
  expect([received(), reachability.isUp(id), reachability.isReachable(id)]).toEqual([[[]], true, false]);
  reachability.begin(run);
  expect([received(), reachability.isReachable(id)]).toEqual([[["r1", "open"]], true]);
  reachability.begin(aSandbox("i2", { executionId: "s1" }));
  expect(received()).toEqual([]);
  reachability.onHostEvent({ kind: "reachable", id: "i2", endpoint });
  expect(received()).toEqual([["s1", "open"]]);
});

describe("a pause", () => {
  test("closes the route before the host is called, and ends the run when it succeeds", () => {
    up();
    reachability.hide(id);
    expect([received(), reachability.isReachable(id)]).toEqual([[["r1", "closed"]], false]);
    reachability.onHostEvent({ kind: "unreachable", id });
    expect(received()).toEqual([]);
    reachability.end(id);
    expect(received()).toEqual([["r1", "over"]]);
  });

  test("that fails opens the route again, when host and control both report the run", () => {
    up();
    reachability.hide(id);
    reachability.onHostEvent({ kind: "unreachable", id });
    reachability.onHostEvent({ kind: "reachable", id, endpoint });
    expect(received()).toEqual([["r1", "closed"]]);
    reachability.show(id);
    expect(received()).toEqual([["r1", "open"]]);
  });
});

test("a sandbox that the host lost has no route at once, before its row changes", () => {
  up();
  reachability.onHostEvent({ kind: "unreachable", id });
  reachability.onHostEvent({ kind: "lost", id, reason: "it ended" });
  expect(received()).toEqual([
    ["r1", "closed"],
    ["r1", "over"],
  ]);
  expect([reachability.isUp(id), reachability.isReachable(id)]).toEqual([false, false]);
});

test("an ended run stays without a route, even if the host reports it late", () => {
  up();
  reachability.end(id);
  received();
  reachability.onHostEvent({ kind: "reachable", id, endpoint });
  expect([received(), reachability.isReachable(id)]).toEqual([[], false]);
});

test("an inventory closes routes that it does not name, and later reports open them again", () => {
  up();
  reachability.onHostEvent({ kind: "inventory", reachable: [] });
  expect([received(), reachability.isUp(id)]).toEqual([[["r1", "closed"]], false]);
  reachability.onHostEvent({ kind: "inventory", reachable: [{ id, endpoint }] });
  expect(received()).toEqual([["r1", "open"]]);
});

test("a late listener gets all routes", () => {
  up();
  const late: RouteEvent[] = [];
  reachability.follow((event) => void late.push(event));
  expect(late).toEqual([{ kind: "table", routes: [{ sandboxId: id, runId: "r1", endpoint, access, isOpen: true }] }]);
});
