/** Sandbox events and their delivery to webhooks. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { until } from "../../base/testing/until.ts";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import {
  DELIVERIES_PER_TEAM_AT_ONCE,
  DELIVERIES_PER_WEBHOOK_AT_ONCE,
  DELIVERY_RETRY_MS,
} from "../webhooks/webhook-deliveries.ts";
import { WEBHOOKS_PER_TEAM_MAX } from "../webhooks/webhooks.ts";
import { ACTIVITY_SWEEP_MS } from "./activity.ts";
import { DELIVERIES_WAITING_MAX } from "./sandbox-event-record.ts";

interface Event {
  id: string;
  type: string;
  timestamp: string;
  sandboxId: string;
  sandboxExecutionId: string;
  sandboxTemplateId: string;
  sandboxBuildId: string;
  sandboxTeamId: string;
  eventData: { sandbox_metadata: Record<string, string>; execution?: Record<string, unknown>; note?: string };
}

interface Webhook {
  id: string;
  url: string;
  enabled: boolean;
}

interface Deliveries {
  data: { eventId: string; eventType: string; sandboxId: string; attempts: Record<string, unknown>[] }[];
  nextCursor: string | null;
}

const CREATED = "sandbox.lifecycle.created";
const KILLED = "sandbox.lifecycle.killed";
const hook = { name: "mine", url: "https://hooks.example/in", events: [CREATED, KILLED], signatureSecret: "s3cret" };

for (const { title, missing, fresh } of enginesOfControl()) {
  describe.skipIf(missing)(title, () => {
    let fixture: ControlFixture;
    beforeEach(async () => {
      fixture = await ControlFixture.open(new FakeHost(), await fresh());
    });
    afterEach(() => fixture[Symbol.asyncDispose]());

    const settle = (ms = 1_000) => fixture.passBy(ms);

    /** Lets deliveries proceed while some of them never end. */
    async function whileStuck(isSo: () => boolean): Promise<void> {
      await fixture.idleClock.advance(200, () => Bun.sleep(1));
      await until("deliveries proceed", isSo);
    }

    async function events(path = "", headers: Record<string, string> = {}): Promise<Event[]> {
      const reply = await fixture.call("GET", `/events/sandboxes${path}`, undefined, headers);
      expect(reply.status).toBe(200);
      return reply.body as unknown as Event[];
    }

    async function addHook(changes: Record<string, unknown> = {}): Promise<Webhook> {
      const reply = await fixture.call("POST", "/events/webhooks", { ...hook, ...changes });
      expect(reply.status).toBe(201);
      return reply.body as unknown as Webhook;
    }

    async function deliveries(id: string, query = ""): Promise<Deliveries> {
      const reply = await fixture.call("GET", `/events/webhooks/${id}/deliveries${query}`);
      expect(reply.status).toBe(200);
      return reply.body as unknown as Deliveries;
    }

    describe("events", () => {
      test("have type, sandbox and run, and are listed newest first", async () => {
        const id = await fixture.create({ metadata: { a: "b" }, timeout: 60 });
        await fixture.advance(5_000);
        await fixture.call("DELETE", `/sandboxes/${id}`);
        const [killed, created] = await events();
        expect(created).toMatchObject({
          type: CREATED,
          version: "v2",
          timestamp: new Date(NOW).toISOString(),
          sandboxId: id,
        });
        expect(created?.eventData).toEqual({ sandbox_metadata: { a: "b" } });
        expect(killed).toMatchObject({ type: KILLED, sandboxId: id, sandboxTeamId: fixture.firstRun.teamId });
        expect(killed?.sandboxExecutionId).toBe(created?.sandboxExecutionId ?? "");
        expect(killed?.sandboxTemplateId).toBe("basetemplate00000000");
        expect(killed?.eventData.execution).toEqual({
          started_at: new Date(NOW).toISOString(),
          vcpu_count: 2,
          memory_mb: 1024,
          execution_time: 5000,
        });
      });

      test("are recorded before the response to their request", async () => {
        const recorded = async () => {
          const all = { sandboxId: undefined, types: [], since: 0, ascending: true, offset: 0, limit: 100 };
          return (await fixture.store.sandboxEvents.list({ ...all, teamId: fixture.firstRun.teamId })).map(
            ({ type }) => type,
          );
        };
        const id = await fixture.create({ timeout: 60 });
        expect(await recorded()).toEqual([CREATED]);
        await fixture.call("DELETE", `/sandboxes/${id}`);
        expect(await recorded()).toEqual([CREATED, KILLED]);
      });

      test("give a paused run the duration until its pause began, also after a later kill", async () => {
        const id = await fixture.create({ timeout: 60 });
        await fixture.advance(5_000);
        fixture.host.beforePause = () => fixture.clock.advance(3_000, async () => undefined);
        await fixture.call("POST", `/sandboxes/${id}/pause`);
        await fixture.advance(60_000);
        await fixture.call("DELETE", `/sandboxes/${id}`);
        const lasted = (await events()).map(({ eventData }) => eventData.execution?.execution_time);
        expect(lasted).toEqual([5_000, 5_000, undefined]);
      });

      // Guards against storing all metadata again with each new timeout.
      test("leave out long metadata", async () => {
        const id = await fixture.create({ metadata: { long: "x".repeat(32 * 1024) }, timeout: 60 });
        await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 90 });
        const [updated, created] = await events();
        for (const event of [updated, created]) {
          expect(event?.eventData).toMatchObject({ sandbox_metadata: {}, metadata_left_out: true });
        }
        expect((await fixture.call("GET", `/sandboxes/${id}`)).body).toMatchObject({
          metadata: { long: expect.any(String) },
        });
      });

      test("exist as soon as the change is visible, and survive a restart", async () => {
        const id = await fixture.create();
        expect(await events(`/${id}`)).toHaveLength(1);
        await fixture.create();
        await fixture.restart();
        expect(await events()).toHaveLength(2);
      });

      test("are filtered by sandbox and type, ordered, and paged, for one team", async () => {
        const [one, two] = [await fixture.create(), await fixture.create()];
        await fixture.call("DELETE", `/sandboxes/${one}`);
        expect((await events(`/${one}?orderAsc=true`)).map(({ type }) => type)).toEqual([CREATED, KILLED]);
        expect((await events(`?types=${KILLED}`)).map(({ sandboxId }) => sandboxId)).toEqual([one]);
        expect(await events(`?types=${KILLED}&types=${CREATED}`)).toHaveLength(3);
        expect((await events("?limit=1&offset=1&orderAsc=true")).map(({ sandboxId }) => sandboxId)).toHaveLength(1);
        const other = { "X-API-Key": await fixture.anotherTeam("other") };
        expect(await events("", other)).toEqual([]);
        expect(await events(`/${two}`, other)).toEqual([]);
      });

      test.each(["limit=0", "limit=101", "offset=-1", "orderAsc=maybe", "types=sandbox.exploded"])(
        "reject %s",
        async (query) => {
          expect((await fixture.call("GET", `/events/sandboxes?${query}`)).status).toBe(400);
        },
      );

      test("have ten entries per page by default, and are removed after a week", async () => {
        for (let nth = 0; nth < 12; nth++) await fixture.create({ timeout: 3600 });
        expect(await events()).toHaveLength(10);
        await fixture.advance(ACTIVITY_KEPT_MS + 3_600_001);
        expect(await events(`?types=${CREATED}`)).toEqual([]);
        await fixture.idleClock.advance(ACTIVITY_SWEEP_MS, () => fixture.control.settled());
        expect(await fixture.store.sandboxEvents.removeBefore(Number.MAX_SAFE_INTEGER, 100)).toBe(0);
      });
    });

    describe("webhooks", () => {
      test("are made, read, changed and deleted, and never show their secret", async () => {
        const made = await addHook();
        expect(made).toMatchObject({ name: "mine", url: hook.url, enabled: true, events: hook.events });
        expect(JSON.stringify(made)).not.toContain("s3cret");
        const changed = await fixture.call("PATCH", `/events/webhooks/${made.id}`, {
          enabled: false,
          url: "http://x.example/",
        });
        expect(changed.body as unknown).toEqual({ ...made, enabled: false, url: "http://x.example/" });
        expect((await fixture.call("GET", "/events/webhooks")).body as unknown).toEqual([changed.body]);
        const gone = await fixture.call("DELETE", `/events/webhooks/${made.id}`);
        expect([gone.status, gone.headers.get("content-length")]).toEqual([200, "0"]);
        expect((await fixture.call("GET", `/events/webhooks/${made.id}`)).status).toBe(404);
        expect((await fixture.call("DELETE", `/events/webhooks/${made.id}`)).status).toBe(404);
      });

      test("belong to one team, and are bounded in number", async () => {
        const { id } = await addHook();
        const other = { "X-API-Key": await fixture.anotherTeam("other") };
        for (const [method, path] of [
          ["GET", ""],
          ["PATCH", ""],
          ["DELETE", ""],
          ["GET", "/deliveries"],
          ["GET", "/stats"],
        ] as const) {
          const body = method === "PATCH" ? {} : undefined;
          expect((await fixture.call(method, `/events/webhooks/${id}${path}`, body, other)).status).toBe(404);
        }
        for (let nth = 1; nth < WEBHOOKS_PER_TEAM_MAX; nth++) await addHook();
        const refused = await fixture.call("POST", "/events/webhooks", hook);
        expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, null]);
        expect((await fixture.call("POST", "/events/webhooks", hook, other)).status).toBe(201);
        expect((await fixture.call("GET", "/events/webhooks/not-a-uuid")).status).toBe(400);
      });

      test.each([
        ["a url inside", { url: "http://127.0.0.1:9/" }],
        ["a password", { url: "https://a:b@x.example/" }],
        ["another scheme", { url: "ftp://x.example/" }],
        ["no events", { events: [] }],
        ["an unknown event", { events: ["sandbox.lifecycle.bored"] }],
        ["no secret", { signatureSecret: "" }],
        ["no name", { name: "" }],
        ["a long url", { url: `https://x.example/${"x".repeat(3000)}` }],
      ])("%s is refused", async (_what, changes) => {
        expect((await fixture.call("POST", "/events/webhooks", { ...hook, ...changes })).status).toBe(400);
        const { id } = await addHook();
        expect((await fixture.call("PATCH", `/events/webhooks/${id}`, changes)).status).toBe(400);
      });
    });

    describe("deliveries", () => {
      test("are signed, in snake_case, and go to the team's enabled webhooks for that type", async () => {
        const wanting = await addHook({ events: [KILLED] });
        await addHook({ url: "https://off.example/", enabled: false });
        const other = { "X-API-Key": await fixture.anotherTeam("other") };
        await fixture.call("POST", "/events/webhooks", { ...hook, url: "https://theirs.example/" }, other);
        const id = await fixture.create({ metadata: { a: "b" } });
        await fixture.call("DELETE", `/sandboxes/${id}`);
        await settle();
        expect(fixture.posted.map(({ url }) => url)).toEqual([hook.url]);
        const { headers = {}, body = "" } = fixture.posted[0] ?? {};
        const [killed] = await events(`/${id}?types=${KILLED}`);
        expect(JSON.parse(body)).toMatchObject({
          id: killed?.id,
          type: KILLED,
          sandbox_id: id,
          sandbox_team_id: fixture.firstRun.teamId,
          timestamp: killed?.timestamp,
          event_data: killed?.eventData,
          sandbox_execution_id: killed?.sandboxExecutionId,
          sandbox_template_id: killed?.sandboxTemplateId,
        });
        const digest = new Bun.CryptoHasher("sha256").update(`s3cret${body}`).digest("base64").replaceAll("=", "");
        expect(headers).toMatchObject({
          "e2b-webhook-id": wanting.id,
          "e2b-signature-version": "v1",
          "e2b-signature": digest,
        });
        const { data } = await deliveries(wanting.id);
        expect(data[0]?.attempts).toHaveLength(1);
        expect(data[0]?.attempts[0]).toMatchObject({ success: true, statusCode: 200, error: null });
        expect(data[0]?.attempts[0]?.deliveryId).toBe(headers["e2b-delivery-id"]);
      });

      test("are retried three times, ten seconds apart", async () => {
        const { id } = await addHook({ events: [CREATED] });
        const tries: number[] = [];
        fixture.receive = async () => {
          tries.push(fixture.clock.now());
          if (tries.length === 2) throw new Error("the connection failed: ECONNREFUSED");
          return 500;
        };
        await fixture.create({ timeout: 3600 });
        await settle(60_000);
        expect(tries).toHaveLength(4);
        const gaps = tries.slice(1).map((time, nth) => time - (tries[nth] ?? 0));
        for (const gap of gaps) expect(Math.abs(gap - DELIVERY_RETRY_MS)).toBeLessThanOrEqual(1_000);
        const { data } = await deliveries(id, "?deliveryStatus=failed");
        expect(data[0]?.attempts.map(({ statusCode, error }) => [statusCode, error])).toEqual([
          [500, "answered 500"],
          [null, "the connection failed: ECONNREFUSED"],
          [500, "answered 500"],
          [500, "answered 500"],
        ]);
        expect(new Set(fixture.posted.map(({ headers }) => headers["e2b-delivery-id"])).size).toBe(1);
        const stats = (await fixture.call("GET", `/events/webhooks/${id}/stats`)).body as unknown as Record<
          string,
          number
        >;
        expect(stats).toMatchObject({ total: 4, failed: 4 });
      });

      test("are counted in buckets of exactly an hour", async () => {
        const { id } = await addHook({ events: [CREATED] });
        fixture.receive = async () => (fixture.posted.length === 1 ? 200 : 400);
        await fixture.create({ timeout: 36_000 });
        await settle(60_000);
        const statsOf = async (query: string) => {
          const { body } = await fixture.call("GET", `/events/webhooks/${id}/stats${query}`);
          return body as unknown as { buckets: { timestamp: string; total: number }[]; total: number };
        };
        const day = await statsOf("");
        const times = day.buckets.map(({ timestamp }) => Date.parse(timestamp));
        expect(times).toHaveLength(24);
        expect(new Set(times.slice(1).map((time, nth) => time - (times[nth] ?? 0)))).toEqual(new Set([3_600_000]));
        expect(fixture.clock.now() - (times[0] ?? 0)).toBe(24 * 3_600_000);
        expect([day.total, day.buckets.at(-1)?.total]).toEqual([1, 1]);
        // Of more than is kept there are no more buckets.
        const ever = await statsOf("?start=1970-01-01T00:00:00Z&end=2999-01-01T00:00:00Z");
        expect([ever.buckets.length, ever.total]).toEqual([7 * 24, 1]);
        const past = await statsOf("?start=1970-01-01T00:00:00Z&end=1970-01-02T00:00:00Z");
        expect([past.buckets.length, past.total]).toEqual([1, 0]);
      });

      test("that were recorded are sent after a crash, at least once", async () => {
        await addHook({ events: [CREATED] });
        const stuck = Promise.withResolvers<number>();
        fixture.receive = () => stuck.promise;
        await fixture.create({ timeout: 3600 });
        await whileStuck(() => fixture.posted.length === 1);
        fixture.receive = async () => 200;
        // The server does not wait for the delivery under way and ignores its result.
        await fixture.restart();
        stuck.resolve(200);
        await settle();
        expect(fixture.posted.length).toBeGreaterThanOrEqual(2);
        expect(new Set(fixture.posted.map(({ headers }) => headers["e2b-delivery-id"])).size).toBe(1);
      });

      test("to a receiver that hangs do not delay others", async () => {
        const slow = Promise.withResolvers<number>();
        const slowUrls = ["a", "b", "c"].map((name) => `https://slow-${name}.example/`);
        for (const url of slowUrls) await addHook({ url, events: [CREATED] });
        await addHook({ url: "https://quick.example/", events: [CREATED] });
        fixture.receive = ({ url }) => (url.includes("slow") ? slow.promise : Promise.resolve(200));
        const sentTo = (url: string) => fixture.posted.filter((posted) => posted.url === url).length;
        const sent = () => ["https://quick.example/", ...slowUrls].map(sentTo);
        const wanted = [10, ...slowUrls.map(() => DELIVERIES_PER_WEBHOOK_AT_ONCE)];
        for (let nth = 0; nth < 10; nth++) await fixture.create({ timeout: 3600 });
        await whileStuck(() => Bun.deepEquals(sent(), wanted));
        expect(sent()).toEqual(wanted);
        expect(slowUrls.length * DELIVERIES_PER_WEBHOOK_AT_ONCE).toBeLessThan(DELIVERIES_PER_TEAM_AT_ONCE);
        slow.resolve(200);
        await settle(5_000);
        expect(fixture.posted).toHaveLength(40);
      });

      test("beyond the queue limit are recorded as failed and not sent", async () => {
        const { id } = await addHook({ events: [CREATED] });
        for (let nth = 0; nth < DELIVERIES_WAITING_MAX; nth++) {
          await fixture.store.webhooks.addDelivery({
            id: `d${nth}`,
            webhookId: id,
            eventId: "none",
            eventType: CREATED,
            sandboxId: "i",
            eventAt: NOW,
            status: "pending",
            nextAt: NOW + 3_600_000,
            attempts: [],
          });
        }
        await fixture.create();
        await settle();
        expect(fixture.posted).toEqual([]);
        const { data } = await deliveries(id);
        expect(data[0]?.attempts[0]?.error).toContain("still wait");
      });

      test("are dropped when the webhook is disabled or deleted", async () => {
        const { id } = await addHook({ events: [CREATED] });
        fixture.receive = async () => 500;
        await fixture.create({ timeout: 3600 });
        await settle();
        await fixture.call("PATCH", `/events/webhooks/${id}`, { enabled: false });
        await settle(60_000);
        expect(fixture.posted).toHaveLength(1);
        await fixture.call("DELETE", `/events/webhooks/${id}`);
        expect(await fixture.store.webhooks.waiting()).toEqual([]);
      });

      test("are listed page by page", async () => {
        const { id } = await addHook({ events: [CREATED] });
        const made: string[] = [];
        for (let nth = 0; nth < 5; nth++) {
          made.push(await fixture.create({ timeout: 3600 }));
          await fixture.advance(1);
        }
        await settle();
        const seen: string[] = [];
        let cursor: string | null = "";
        while (cursor !== null) {
          const page: Deliveries = await deliveries(
            id,
            `?limit=2&orderAsc=true${cursor === "" ? "" : `&cursor=${cursor}`}`,
          );
          seen.push(...page.data.map(({ sandboxId }) => sandboxId));
          cursor = page.nextCursor;
        }
        expect(seen).toEqual(made);
        expect((await fixture.call("GET", `/events/webhooks/${id}/deliveries?cursor=nonsense`)).status).toBe(400);
        expect((await deliveries(id, `?start=${new Date(NOW + 3).toISOString()}`)).data).toHaveLength(2);
      });
    });
  });
}
