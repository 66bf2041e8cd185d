/** Request rate limits of a caller, and the response when it exceeds them. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ManualClock } from "../../base/testing/manual-clock.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import {
  networkOf,
  REQUEST_BURST_SECONDS,
  REQUEST_RATES_DEFAULT,
  RequestBudgets,
  UNAUTHENTICATED_REQUESTS_BURST,
} from "./request-rates.ts";
import { TOKEN_BUCKETS_MAX } from "./token-buckets.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** Statuses of so many requests, one after the other. */
async function statuses(count: number, method: string, path: string, headers?: Record<string, string>) {
  const seen: number[] = [];
  for (let sent = 0; sent < count; sent++) seen.push((await fixture.call(method, path, undefined, headers)).status);
  return seen;
}

const limit = (limits: { reads?: number; changes?: number }) =>
  fixture.store.people.setLimits(fixture.firstRun.teamId, limits);

describe("a team", () => {
  test("may send ten seconds' worth at once, then gets a Retry-After", async () => {
    await limit({ reads: 2 });
    expect(new Set(await statuses(2 * REQUEST_BURST_SECONDS, "GET", "/v2/sandboxes"))).toEqual(new Set([200]));
    const { status, body, headers } = await fixture.call("GET", "/v2/sandboxes");
    expect([status, headers.get("retry-after")]).toEqual([429, "1"]);
    expect(body.message).toBe(
      "this team may send 2 requests that read each second, and sent more; try again after Retry-After seconds, " +
        "or ask the operator of this server to allow more",
    );
    await fixture.advance(1_000);
    expect(await statuses(3, "GET", "/v2/sandboxes")).toEqual([200, 200, 429]);
  });

  test("gets its remaining budget in every response, also in errors", async () => {
    await limit({ reads: 2 });
    const reportOf = (headers: Headers) =>
      ["limit", "remaining", "reset"].map((name) => headers.get(`ratelimit-${name}`));
    expect(reportOf((await fixture.call("GET", "/v2/sandboxes")).headers)).toEqual(["20", "19", "1"]);
    expect(reportOf((await fixture.call("GET", "/sandboxes/iabsent")).headers)).toEqual(["20", "18", "1"]);
    await statuses(18, "GET", "/v2/sandboxes");
    expect(reportOf((await fixture.call("GET", "/v2/sandboxes")).headers)).toEqual(["20", "0", "10"]);
    expect(reportOf((await fixture.call("GET", "/health")).headers)).toEqual([null, null, null]);
  });

  test("has a separate budget for changes, and no other team's", async () => {
    await limit({ reads: 1, changes: 1 });
    await statuses(REQUEST_BURST_SECONDS, "DELETE", "/sandboxes/iabsent");
    const refused = await fixture.call("DELETE", "/sandboxes/iabsent");
    expect([refused.status, refused.body.message]).toEqual([429, expect.stringContaining("that change something")]);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await statuses(1, "GET", "/v2/sandboxes")).toEqual([200]);
    const headers = { "X-API-Key": await fixture.anotherTeam("other") };
    expect(await statuses(2, "DELETE", "/sandboxes/iabsent", headers)).toEqual([404, 404]);
  });

  test("is rejected before its body is read, and nothing is created", async () => {
    await limit({ changes: 1 });
    await statuses(REQUEST_BURST_SECONDS, "DELETE", "/sandboxes/iabsent");
    expect((await fixture.call("POST", "/sandboxes", "not JSON")).status).toBe(429);
    expect(fixture.host.running).toEqual([]);
  });

  test("has a new budget at once when the operator changes it", async () => {
    await limit({ changes: 1 });
    expect((await statuses(REQUEST_BURST_SECONDS + 1, "DELETE", "/sandboxes/iabsent")).at(-1)).toBe(429);
    await limit({ changes: 2 });
    expect(await statuses(1, "DELETE", "/sandboxes/iabsent")).toEqual([404]);
  });

  test("without a limit of its own has enough for hundreds of creates at once", () => {
    const budgets = new RequestBudgets(new ManualClock(0));
    const owner = { id: "team", name: "this team", rates: {} };
    for (let sent = 0; sent < REQUEST_RATES_DEFAULT.changes * REQUEST_BURST_SECONDS; sent++) {
      budgets.take(owner, "changes");
    }
    expect(() => budgets.take(owner, "changes")).toThrow(`${REQUEST_RATES_DEFAULT.changes} requests`);
    expect(REQUEST_RATES_DEFAULT.changes * REQUEST_BURST_SECONDS).toBeGreaterThanOrEqual(2_000);
  });

  test("has a separate budget for the files of its volumes", () => {
    const budgets = new RequestBudgets(new ManualClock(0), { reads: 1, changes: 1, files: 1 });
    const owner = { id: "team", name: "the team of this volume", rates: {} };
    for (let sent = 0; sent < REQUEST_BURST_SECONDS; sent++) budgets.take(owner, "files");
    expect(() => budgets.take(owner, "files")).toThrow(
      expect.objectContaining({
        status: 429,
        message: expect.stringContaining("may send 1 requests about files of volumes each second"),
        headers: expect.objectContaining({ "Retry-After": "1" }),
      }),
    );
    expect(budgets.take(owner, "changes")["RateLimit-Remaining"]).toBe(String(REQUEST_BURST_SECONDS - 1));
  });
});

describe("a request without a valid key", () => {
  const from = (client: string, path: string, key?: string) =>
    fixture.control.handle(
      new Request(`http://localhost${path}`, { headers: key === undefined ? {} : { "X-API-Key": key } }),
      { address: client, fromTrustedProxy: false },
    );
  const spend = async (client: string) => {
    for (let sent = 0; sent < UNAUTHENTICATED_REQUESTS_BURST; sent++) await from(client, "/health");
  };

  test("has a budget by address; requests with a valid key from there are answered", async () => {
    await spend("192.0.2.1");
    for (const path of ["/health", "/nothing", "/v2/sandboxes"]) {
      const refused = await from("192.0.2.1", path, `e2b_${"0".repeat(40)}`);
      expect([path, refused.status, refused.headers.get("retry-after")]).toEqual([path, 429, "1"]);
      expect((await refused.json()).message).toStartWith("192.0.2.1 may send 50 requests without a valid key");
    }
    expect((await from("192.0.2.1", "/v2/sandboxes", fixture.apiKey)).status).toBe(200);
    expect((await from("192.0.2.2", "/v2/sandboxes", "e2b_wrong")).status).toBe(401);
    await fixture.advance(1_000);
    expect((await from("192.0.2.1", "/v2/sandboxes")).status).toBe(401);
  });

  test.each([
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:0:7::1", "2001:db8:0:7::/64"],
    ["2001:0db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["", ""],
  ])("%p counts as %p", (address, network) => {
    expect(networkOf(address)).toBe(network);
  });

  test("is forgotten when too many others arrive, so the number of budgets is bounded", () => {
    const budgets = new RequestBudgets(new ManualClock(0));
    const spent = () => budgets.takeUnauthenticated("first");
    for (let sent = 0; sent < UNAUTHENTICATED_REQUESTS_BURST; sent++) spent();
    expect(spent).toThrow("first may send");
    for (let client = 0; client < TOKEN_BUCKETS_MAX; client++) budgets.takeUnauthenticated(`other ${client}`);
    expect(spent).not.toThrow();
  });
});
