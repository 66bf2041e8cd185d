/** Creates with an Idempotency-Key, on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { bothEngines } from "../../store/testing/engines.ts";
import { sweepActivity } from "../activity/activity-sweep.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { IDEMPOTENCY_KEYS_PER_TEAM_MAX } from "./idempotent-creates.ts";

const HOUR_MS = 60 * 60_000;
const request = { templateID: "base", timeout: 60, metadata: { a: "1", b: "2" } };

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(`a create with an Idempotency-Key, on ${title}`, () => {
    let fixture: ControlFixture;
    beforeEach(async () => {
      fixture = await ControlFixture.open(new FakeHost(), await fresh());
    });
    afterEach(() => fixture[Symbol.asyncDispose]());

    const create = (key: string, body: object = request, path = "/v2/sandboxes", apiKey = fixture.apiKey) =>
      fixture.call("POST", path, body, { "Idempotency-Key": key, "X-API-Key": apiKey });
    const refusal = async (reply: ReturnType<typeof create>) => {
      const { status, body } = await reply;
      return [status, body.error_code];
    };

    test.each(["/sandboxes", "/v2/sandboxes"])("repeated at %s returns the same sandbox", async (path) => {
      const body = { ...request, secure: true, network: { allowPublicTraffic: false } };
      const first = await create("one key", body, path);
      const reordered = { ...body, metadata: { b: "2", a: "1" } };
      await fixture.restart();
      const second = await create("one key", reordered, path);
      expect([second.status, second.body]).toEqual([201, first.body]);
      expect([first, second].map(({ headers }) => headers.get("idempotent-replayed"))).toEqual([null, "true"]);
      expect(first.body.trafficAccessToken).toBeString();
      expect(fixture.host.running).toEqual([first.body.sandboxID]);
      expect((await create("another key", body, path)).body.sandboxID).not.toBe(first.body.sandboxID);
    });

    test("is rejected with another body, or at the other generation of the endpoint", async () => {
      await create("k");
      const mismatch = [409, "idempotency_request_mismatch"];
      expect(await refusal(create("k", { ...request, timeout: 61 }))).toEqual(mismatch);
      expect(await refusal(create("k", request, "/sandboxes"))).toEqual(mismatch);
      expect(fixture.host.running).toHaveLength(1);
    });

    test("concurrent with another of the same key creates one sandbox", async () => {
      const held = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      fixture.host.beforeCreate = async () => {
        begun.resolve();
        await held.promise;
      };
      const first = create("k");
      await begun.promise;
      const second = await create("k");
      expect([second.status, second.body.error_code]).toEqual([409, "idempotency_in_progress"]);
      expect(second.headers.get("retry-after")).toBe("1");
      expect(await refusal(create("k", { templateID: "base" }))).toEqual([409, "idempotency_request_mismatch"]);
      held.resolve();
      const { status, body } = await first;
      expect(status).toBe(201);
      expect((await create("k")).body).toEqual(body);
      expect(fixture.host.running).toEqual([body.sandboxID]);
    });

    test("on two servers of one store keeps one sandbox", async () => {
      const team = await fixture.store.people.teamBySlug("default");
      const taken = Promise.withResolvers<void>();
      fixture.host.beforeCreate = async () => {
        // As another server does that was a moment faster.
        const key = { teamId: team?.id ?? "", keyHash: hashOf("k"), requestHash: "other", sandboxId: "i1" };
        await fixture.store.idempotencyKeys.add({ ...key, createdAt: fixture.clock.now() }, 0);
        taken.resolve();
      };
      expect(await refusal(create("k"))).toEqual([409, "idempotency_in_progress"]);
      await taken.promise;
      expect([fixture.host.running, fixture.host.destroyed.length]).toEqual([[], 1]);
      expect(await refusal(create("k"))).toEqual([409, "idempotency_request_mismatch"]);
    });

    test("that failed leaves the key free", async () => {
      expect((await create("k", { ...request, templateID: "nothing" })).status).toBe(404);
      fixture.host.beforeCreate = async () => {
        throw new Fault(503, "no room");
      };
      expect((await create("k")).status).toBe(503);
      fixture.host.beforeCreate = async () => undefined;
      const { transaction } = fixture.store;
      fixture.store.transaction = async (work, durability) => {
        fixture.host.lose(fixture.host.running[0] ?? "");
        await fixture.control.settled();
        return transaction(work, durability);
      };
      expect((await create("k")).status).toBe(503);
      fixture.store.transaction = transaction;
      const { status, headers } = await create("k");
      expect([status, headers.get("idempotent-replayed")]).toEqual([201, null]);
      expect(fixture.host.running).toHaveLength(1);
    });

    test("says that its sandbox has ended, and returns a paused one without waking it", async () => {
      const { body } = await create("k");
      await fixture.call("POST", `/sandboxes/${body.sandboxID}/pause`);
      expect((await create("k")).body).toEqual(body);
      expect((await fixture.call("GET", `/sandboxes/${body.sandboxID}`)).body.state).toBe("paused");
      await fixture.call("DELETE", `/sandboxes/${body.sandboxID}`);
      expect(await refusal(create("k"))).toEqual([409, "idempotency_sandbox_ended"]);
      expect(fixture.host.running).toEqual([]);
    });

    test("is recognised for 24 hours, and of its team only", async () => {
      const theirs = await fixture.anotherTeam("strangers");
      const long = { ...request, timeout: 48 * 3600 };
      const first = (await create("k", long)).body.sandboxID;
      const other = (await create("k", long, "/v2/sandboxes", theirs)).body.sandboxID;
      expect(other).not.toBe(first);
      await fixture.advance(24 * HOUR_MS - 1);
      await sweepActivity(fixture.store, fixture.clock.now());
      expect((await create("k", long)).body.sandboxID).toBe(first);
      await fixture.advance(1);
      expect((await create("k", long)).body.sandboxID).not.toBe(first);
      await sweepActivity(fixture.store, fixture.clock.now() + 1);
      const count = async (key: string) => {
        const found = await fixture.store.keys.apiKeyByHash(key);
        return fixture.store.idempotencyKeys.countOf(found?.team.id ?? "", 0);
      };
      expect(await Promise.all([fixture.apiKey, theirs].map((key) => count(apiHash(key))))).toEqual([1, 0]);
    });

    test.each([
      ["nothing", "", 0],
      ["256 characters", "a".repeat(256), 256],
      ["a tab", "a\tb", 3],
      ["a letter beyond ASCII", "ü", 1],
    ])("is rejected with %s as its key", async (_, key, length) => {
      const { status, body } = await create(key);
      expect([status, body.message.includes("1 to 255 printable ASCII")]).toEqual([400, true]);
      expect(body.message).toContain(`got ${length}`);
      expect(fixture.host.running).toEqual([]);
    });

    test("of the longest kind is taken, and stored as a hash", async () => {
      expect((await create("~".repeat(255))).status).toBe(201);
      const team = await fixture.store.people.teamBySlug("default");
      expect(await fixture.store.idempotencyKeys.find(team?.id ?? "", hashOf("~".repeat(255)), 0)).toBeDefined();
    });

    test("above the team's limit is rejected, and nothing is created", async () => {
      const { idempotencyKeys } = fixture.store;
      const first = (await create("k")).body.sandboxID;
      Object.assign(fixture.store.idempotencyKeys, { countOf: async () => IDEMPOTENCY_KEYS_PER_TEAM_MAX });
      expect((await create("new")).status).toBe(429);
      expect((await create("k")).body.sandboxID).toBe(first);
      Object.assign(idempotencyKeys, { countOf: async () => IDEMPOTENCY_KEYS_PER_TEAM_MAX - 1 });
      expect((await create("new")).status).toBe(201);
    });
  });
}

function hashOf(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}

/** As the store keeps an API key. */
function apiHash(key: string): string {
  return new Bun.CryptoHasher("sha256").update(Uint8Array.fromHex(key.slice("e2b_".length))).digest("hex");
}
