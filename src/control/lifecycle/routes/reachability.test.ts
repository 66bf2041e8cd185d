/** Routes combine what the host and control know, and are published at once. */
import { beforeEach, describe, expect, test } from "bun:test";
import type { RouteEvent } from "../../../contract/internal/directory.ts";
import { Reachability } from "./reachability.ts";

const endpoint = { host: "10.0.0.1", runtimePort: 49_983, ownPorts: true };
const access = { teamId: "t", trafficToken: null, guardsRuntime: false, maskRequestHost: null, httpsPorts: [] };
const id = "i1";

let reachability: Reachability;
let told: RouteEvent[];
beforeEach(() => {
  reachability = new Reachability();
  told = [];
  reachability.follow((event) => void told.push(event));
});

/** A summary of the events since the last call. */
function heard(): unknown[] {
  return told
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
  reachability.heard({ kind: "reachable", id, endpoint });
  reachability.begin(id, "r1", access);
  heard();
}

test("a run is told when both say so, whoever comes first", () => {
  reachability.heard({ kind: "reachable", id, endpoint });
  expect([heard(), reachability.isUp(id), reachability.isReachable(id)]).toEqual([[[]], true, false]);
  reachability.begin(id, "r1", access);
  expect([heard(), reachability.isReachable(id)]).toEqual([[["r1", "open"]], true]);
  reachability.begin("i2", "s1", access);
  expect(heard()).toEqual([]);
  reachability.heard({ kind: "reachable", id: "i2", endpoint });
  expect(heard()).toEqual([["s1", "open"]]);
});

describe("a pause", () => {
  test("closes the way before the host is asked, and ends the run when it is done", () => {
    up();
    reachability.hide(id);
    expect([heard(), reachability.isReachable(id)]).toEqual([[["r1", "closed"]], false]);
    reachability.heard({ kind: "unreachable", id });
    expect(heard()).toEqual([]);
    reachability.end(id);
    expect(heard()).toEqual([["r1", "over"]]);
  });

  test("that fails opens it again, only when both say so", () => {
    up();
    reachability.hide(id);
    reachability.heard({ kind: "unreachable", id });
    reachability.heard({ kind: "reachable", id, endpoint });
    expect(heard()).toEqual([["r1", "closed"]]);
    reachability.show(id);
    expect(heard()).toEqual([["r1", "open"]]);
  });
});

test("what the host lost is over at once, before its row says so", () => {
  up();
  reachability.heard({ kind: "unreachable", id });
  reachability.heard({ kind: "lost", id, reason: "it ended" });
  expect(heard()).toEqual([
    ["r1", "closed"],
    ["r1", "over"],
  ]);
  expect([reachability.isUp(id), reachability.isReachable(id)]).toEqual([false, false]);
});

test("after its end a run stays gone, whatever a host says that is slow to forget it", () => {
  up();
  reachability.end(id);
  heard();
  reachability.heard({ kind: "reachable", id, endpoint });
  expect([heard(), reachability.isReachable(id)]).toEqual([[], false]);
});

test("a host that was away says what there is: what it does not name is closed, and open again when it is back", () => {
  up();
  reachability.heard({ kind: "inventory", reachable: [] });
  expect([heard(), reachability.isUp(id)]).toEqual([[["r1", "closed"]], false]);
  reachability.heard({ kind: "inventory", reachable: [{ id, endpoint }] });
  expect(heard()).toEqual([["r1", "open"]]);
});

test("who comes later is told of all there are", () => {
  up();
  const late: RouteEvent[] = [];
  reachability.follow((event) => void late.push(event));
  expect(late).toEqual([{ kind: "table", routes: [{ sandboxId: id, runId: "r1", endpoint, access, isOpen: true }] }]);
});
