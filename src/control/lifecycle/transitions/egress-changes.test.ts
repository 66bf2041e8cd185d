/** New network rules for a running sandbox: what they replace, when they take effect, and concurrent operations. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { Egress } from "../../../contract/internal/host.ts";
import { ControlFixture } from "../../testing/control-fixture.ts";
import { EGRESS_CHANGES_WAITING_MAX, EGRESS_REPAIR_RETRY_MIN_MS } from "./egress-changes.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

const put = (id: string, body: unknown, headers = {}) => fixture.call("PUT", `/sandboxes/${id}/network`, body, headers);
const denied = (address: string): Egress => ({
  allowRanges: [],
  allowNames: [],
  denyRanges: [`${address}/32`],
  proxy: null,
});
const shown = async (id: string) => (await fixture.call("GET", `/sandboxes/${id}`)).body.network;
const enforced = (id: string) => fixture.host.requestOf(id)?.egress;
const statusOf = async (reply: Promise<{ status: number }>) => (await reply).status;

/** Changes of rules wait at the host until they are let go, and then fail if a failure is given. */
function hold(failure?: Fault): { begun: Promise<void>; finish(): void } {
  const begun = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  fixture.host.beforeEgressHolds = async () => {
    fixture.host.beforeEgressHolds = async () => undefined;
    begun.resolve();
    await held.promise;
    if (failure !== undefined) throw failure;
  };
  return { begun: begun.promise, finish: held.resolve };
}

describe("new rules", () => {
  test("replace all egress rules, and leave ingress unchanged", async () => {
    const ingress = { allowPublicTraffic: false, maskRequestHost: "localhost", httpsPorts: [8443] };
    const egress = { allowOut: ["a.test"], denyOut: ["0.0.0.0/0"], egressProxy: { address: "p.test:1080" } };
    const id = await fixture.create({ network: { ...ingress, ...egress } });
    const access = fixture.find(id)?.access;
    expect(await statusOf(put(id, { denyOut: ["9.9.9.9"] }))).toBe(204);
    expect(await shown(id)).toEqual({ ...ingress, denyOut: ["9.9.9.9"] });
    expect(enforced(id)).toEqual(denied("9.9.9.9"));
    expect(await statusOf(put(id, { allowOut: null, denyOut: [] }))).toBe(204);
    expect(await shown(id)).toEqual({ ...ingress, denyOut: [] });
    expect(enforced(id)).toBe("open");
    expect(fixture.find(id)?.access).toEqual(access ?? fail());
    expect(fixture.eventsOf(id)).toEqual(["created", "updated", "updated"]);
  });

  test("keep allow_internet_access unset unless they set it", async () => {
    const id = await fixture.create({ allow_internet_access: false });
    const internet = async () => (await fixture.call("GET", `/sandboxes/${id}`)).body.allowInternetAccess;
    await put(id, { allowOut: ["1.1.1.1"] });
    expect([await internet(), enforced(id)]).toEqual([
      false,
      { allowRanges: ["1.1.1.1/32"], allowNames: [], denyRanges: ["0.0.0.0/0"], proxy: null },
    ]);
    await put(id, { allow_internet_access: null });
    expect([await internet(), enforced(id)]).toEqual([false, "closed"]);
    await put(id, { allow_internet_access: true });
    expect([await internet(), enforced(id)]).toEqual([true, "open"]);
    await put(id, { allow_internet_access: false });
    expect([await internet(), enforced(id), await shown(id)]).toEqual([false, "closed", { allowPublicTraffic: true }]);
  });

  test("are answered when they are in force, and shown from then on", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    let isAnswered = false;
    const change = put(id, { denyOut: ["9.9.9.9"] }).finally(() => {
      isAnswered = true;
    });
    await begun;
    expect([await shown(id), isAnswered]).toEqual([{ allowPublicTraffic: true }, false]);
    finish();
    expect((await change).status).toBe(204);
    expect(await shown(id)).toEqual({ allowPublicTraffic: true, denyOut: ["9.9.9.9"] });
  });

  test("survive pause, resume and restart, and apply to copies", async () => {
    const id = await fixture.create({ network: { denyOut: ["8.8.8.8"] } });
    await put(id, { denyOut: ["9.9.9.9"] });
    await fixture.call("POST", `/sandboxes/${id}/fork`);
    expect(enforced(fixture.host.running[1] ?? "")).toEqual(denied("9.9.9.9"));
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.restart();
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    expect(enforced(id)).toEqual(denied("9.9.9.9"));
    const { snapshotID } = (await fixture.call("POST", `/sandboxes/${id}/snapshots`, {})).body;
    expect(enforced(await fixture.create({ templateID: snapshotID }))).toBe("open");
  });

  test("are only for running sandboxes of the team", async () => {
    const id = await fixture.create();
    expect(await statusOf(put("i00000000000000000000", {}))).toBe(404);
    expect(await statusOf(put(id, {}, { "X-API-Key": await fixture.anotherTeam("strangers") }))).toBe(404);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    const { status, body } = await put(id, { denyOut: ["9.9.9.9"] });
    expect([status, body.message]).toEqual([409, expect.stringContaining("is paused; resume it first")]);
    expect(await shown(id)).toEqual({ allowPublicTraffic: true });
    await fixture.call("DELETE", `/sandboxes/${id}`);
    expect(await statusOf(put(id, {}))).toBe(404);
  });
});

describe("several concurrent changes", () => {
  test("run one after the other, and the last one stays", async () => {
    const id = await fixture.create();
    const steps: string[] = [];
    const { begin, finish } = fixture.store.egressChanges;
    fixture.store.egressChanges.begin = async (...given) => {
      steps.push("begin");
      return begin(...given);
    };
    fixture.store.egressChanges.finish = async (...given) => {
      const row = await finish(...given);
      steps.push(row?.network.denyOut?.[0] ?? "nothing");
      return row;
    };
    fixture.host.beforeEgressHolds = () => Bun.sleep(Math.random() * 4);
    const addresses = Array.from({ length: 20 }, (_, at) => `9.9.9.${at}`);
    const replies = await Promise.all(addresses.map((address) => put(id, { denyOut: [address] })));
    expect(replies.filter(({ status }) => status !== 204)).toEqual([]);
    expect(steps.filter((_, at) => at % 2 === 0)).toEqual(addresses.map(() => "begin"));
    expect(steps.filter((_, at) => at % 2 === 1).toSorted()).toEqual(addresses.toSorted());
    const last = steps.at(-1) ?? fail();
    expect([await shown(id), enforced(id)]).toEqual([{ allowPublicTraffic: true, denyOut: [last] }, denied(last)]);
  });

  test("are rejected if they would wait too long", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    const first = put(id, {});
    await begun;
    const others = Array.from({ length: EGRESS_CHANGES_WAITING_MAX }, () => put(id, {}));
    const refused = await Promise.race(others);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    finish();
    const statuses = (await Promise.all([first, ...others])).map(({ status }) => status);
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
    expect(statuses.filter((status) => status === 204)).toHaveLength(EGRESS_CHANGES_WAITING_MAX);
  });
});

describe("a change interrupted by", () => {
  test("a host failure: the previous rules hold and are shown", async () => {
    const id = await fixture.create({ network: { denyOut: ["8.8.8.8"] } });
    hold(new Fault(500, "nft said no")).finish();
    const { status, body } = await put(id, { denyOut: ["9.9.9.9"] });
    expect([status, body.message]).toEqual([500, expect.stringContaining("could not be changed")]);
    expect(body.message).not.toContain("nft");
    await fixture.control.settled();
    expect([await shown(id), enforced(id)]).toEqual([
      { allowPublicTraffic: true, denyOut: ["8.8.8.8"] },
      denied("8.8.8.8"),
    ]);
    expect((await fixture.store.sandboxes.byId(id))?.egressUnsettled).toBe(false);
    expect(fixture.eventsOf(id)).toEqual(["created"]);
  });

  test("a lasting host failure: the rules of the row are sent again until they hold", async () => {
    const id = await fixture.create({ timeout: 3600 });
    let failures = 0;
    fixture.host.beforeEgressHolds = async () => {
      failures++;
      throw new Fault(503, "busy");
    };
    expect(await statusOf(put(id, { denyOut: ["9.9.9.9"] }))).toBe(503);
    await fixture.control.settled();
    await fixture.advance(EGRESS_REPAIR_RETRY_MIN_MS);
    expect(failures).toBe(3);
    fixture.host.beforeEgressHolds = async () => undefined;
    await fixture.advance(2 * EGRESS_REPAIR_RETRY_MIN_MS);
    expect([enforced(id), (await fixture.store.sandboxes.byId(id))?.egressUnsettled]).toEqual(["open", false]);
  });

  test("a crash: the next start sends the host the rules of the row", async () => {
    const [id, other] = [await fixture.create({ network: { denyOut: ["8.8.8.8"] } }), await fixture.create()];
    const row = await fixture.store.sandboxes.byId(id);
    await fixture.store.egressChanges.begin(row ?? fail(), fixture.clock.now());
    await fixture.host.setEgress(id, "open");
    const reported: string[] = [];
    fixture.host.beforeEgressHolds = async (each) => void reported.push(each);
    await fixture.restart();
    await fixture.control.settled();
    // The other sandbox receives its unchanged rules, because the team's open networks may have changed.
    expect([enforced(id), new Set(reported)]).toEqual([denied("8.8.8.8"), new Set([id, other])]);
    expect(enforced(other)).toBe("open");
    expect((await fixture.store.sandboxes.byId(id))?.egressUnsettled).toBe(false);
  });

  test("a pause after the host call: the next run has the new rules", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await begun;
    const pause = fixture.hold("beforePause");
    const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
    await pause.begun;
    finish();
    expect((await change).status).toBe(204);
    pause.finish();
    expect((await pausing).status).toBe(204);
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    expect([await shown(id), enforced(id)]).toEqual([
      { allowPublicTraffic: true, denyOut: ["9.9.9.9"] },
      denied("9.9.9.9"),
    ]);
  });

  test("a pause that ends before the host call: the previous rules hold", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await begun;
    expect((await fixture.call("POST", `/sandboxes/${id}/pause`)).status).toBe(204);
    finish();
    expect((await change).status).toBe(409);
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    expect([await shown(id), enforced(id)]).toEqual([{ allowPublicTraffic: true }, "open"]);
  });

  test("a pause and a resume: the new run gets the new rules, too", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await begun;
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    finish();
    expect((await change).status).toBe(204);
    expect([await shown(id), enforced(id)]).toEqual([
      { allowPublicTraffic: true, denyOut: ["9.9.9.9"] },
      denied("9.9.9.9"),
    ]);
  });

  test("a copy in progress: the change waits for it", async () => {
    const id = await fixture.create({ timeout: 600 });
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const forking = fixture.call("POST", `/sandboxes/${id}/fork`);
    await begun;
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await fixture.until(() => fixture.clock.timers === 2);
    expect(enforced(id)).toBe("open");
    finish();
    expect([(await change).status, (await forking).status]).toEqual([204, 201]);
    expect([enforced(id), enforced(fixture.host.running[1] ?? "")]).toEqual([denied("9.9.9.9"), "open"]);
  });

  test("a kill: the kill wins", async () => {
    const id = await fixture.create();
    const { begun, finish } = hold();
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await begun;
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
    finish();
    expect((await change).status).toBe(404);
    expect(fixture.host.running).toEqual([]);
  });

  test("an unavailable store: the response waits for the row", async () => {
    const id = await fixture.create({ timeout: 3600 });
    const { finish } = fixture.store.egressChanges;
    let tries = 0;
    fixture.store.egressChanges.finish = async (...given) => {
      if (++tries < 3) throw new Error("away");
      return finish(...given);
    };
    const change = put(id, { denyOut: ["9.9.9.9"] });
    await fixture.until(async () => {
      await fixture.clock.advance(250, async () => undefined);
      return tries >= 3;
    });
    expect((await change).status).toBe(204);
    expect(await shown(id)).toEqual({ allowPublicTraffic: true, denyOut: ["9.9.9.9"] });
  });
});

function fail(): never {
  throw new Error("there should be one");
}
