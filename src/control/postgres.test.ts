/** Control on Postgres, where statements really run concurrently: the races of a sandbox's life once more. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { FakeHost } from "../host/testing/fake-host.ts";
import { type PostgresFixture, postgresOfFile, postgresPrograms } from "../store/testing/postgres.ts";
import { egressOf } from "./lifecycle/egress.ts";
import { ControlFixture } from "./testing/control-fixture.ts";
import { storeBuild, storeTemplate } from "./testing/stored-templates.ts";

const title = postgresPrograms ? "on Postgres" : "on Postgres (not run: its server programs are not on this machine)";

describe.skipIf(postgresPrograms === undefined)(title, () => {
  let postgres: PostgresFixture;
  let fixture: ControlFixture;

  beforeAll(async () => {
    postgres = await postgresOfFile(postgresPrograms ?? "");
    fixture = await ControlFixture.open(new FakeHost(), await postgres.freshDatabase());
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
    await postgres[Symbol.asyncDispose]();
  });

  test("many creates at once, kills against expiry, each sandbox destroyed once", async () => {
    const ids = await Promise.all(
      Array.from({ length: 60 }, () => fixture.create({ timeout: 10, metadata: { a: "b" } })),
    );
    expect((await fixture.call("GET", "/v2/sandboxes?limit=7&metadata=a%3Db")).headers.get("x-total-running")).toBe(
      "60",
    );
    expect((await fixture.store.templates.byAlias("", "base"))?.spawnCount).toBe(60);
    const changes = ids.slice(0, 20).map((id) => fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 30 }));
    expect((await Promise.all(changes)).every((reply) => reply.status === 204)).toBe(true);
    const passed = fixture.advance(10_000);
    const replies = await Promise.all(ids.map((id) => fixture.call("DELETE", `/sandboxes/${id}`)));
    await passed;
    expect(replies.every((reply) => reply.status === 204 || reply.status === 404)).toBe(true);
    expect(replies.slice(0, 20).every((reply) => reply.status === 204)).toBe(true);
    expect(fixture.host.destroyed.toSorted()).toEqual(ids.toSorted());
    expect<unknown>((await fixture.call("GET", "/sandboxes")).body).toEqual([]);
  });

  test("pauses, resumes, snapshots and kills of the same sandboxes: one winner each, nothing stuck, lost or leaked", async () => {
    for (let round = 0; round < 12; round++) {
      const id = await fixture.create({ timeout: 60, autoPause: true, autoResume: { enabled: true } });
      const calls = ["pause", "resume", "pause", "fork", "snapshots", "resume", "pause"].map((path, nth) =>
        Bun.sleep(nth * (round % 4)).then(() => fixture.call("POST", `/sandboxes/${id}/${path}`, {})),
      );
      calls.push(Bun.sleep(5 * (round % 5)).then(() => fixture.call("POST", `/v2/sandboxes/${id}/connect`)));
      const rules = [1, 2, 3].map((nth) =>
        fixture.call("PUT", `/sandboxes/${id}/network`, { denyOut: [`9.9.9.${nth}`] }),
      );
      calls.push(...rules);
      if (round % 3 === 0) calls.push(Bun.sleep(2 * round).then(() => fixture.call("DELETE", `/sandboxes/${id}`)));
      const statuses = (await Promise.all(calls)).map(({ status }) => status);
      expect(statuses.filter((status) => ![200, 201, 204, 404, 409].includes(status))).toEqual([]);
    }
    await fixture.control.settled();
    for (const state of ["pausing", "resuming", "snapshotting", "killing"] as const) {
      expect(await fixture.store.sandboxes.inState(state)).toEqual([]);
    }
    const running = await fixture.store.sandboxes.inState("running");
    for (const row of running) expect(fixture.host.requestOf(row.id)?.egress).toEqual(egressOf(row, []));
    expect(fixture.host.running.toSorted()).toEqual(running.map(({ id }) => id).toSorted());
    const paused = (await fixture.store.sandboxes.inState("paused")).flatMap(({ checkpoint }) => checkpoint ?? []);
    const kept = [...paused, ...(await fixture.store.buildsInUse.checkpoints())];
    expect(fixture.host.checkpoints.toSorted()).toEqual(kept.toSorted());
    expect(fixture.host.collisions).toEqual([]);
    for (const { id } of running) await fixture.call("DELETE", `/sandboxes/${id}`);
  });

  test("concurrent operations on templates do not deadlock", async () => {
    const stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
    for (let round = 0; round < 8; round++) {
      const names = [`first-${round}`, `second-${round}`];
      const own = await storeTemplate(fixture, names[0] ?? "");
      const theirs = await storeTemplate(fixture, names[1] ?? "", { team: "strangers" });
      // Each has both names, so that both claim both.
      await fixture.store.templates.addAlias("default", names[1] ?? "", own);
      await fixture.store.templates.addAlias("strangers", names[0] ?? "", theirs);
      const publish = (id: string, isPublic: boolean, headers?: Record<string, string>) =>
        fixture.call("PATCH", `/templates/${id}`, { public: isPublic }, headers);
      const replies = await Promise.all([
        publish(own, true),
        publish(theirs, true, stranger),
        ...names.map((target) => fixture.call("POST", "/templates/tags", { target, tags: ["v1", "v2"] })),
        fixture.call("DELETE", "/templates/tags", { name: own, tags: ["v2", "v1"] }),
        fixture.call("POST", "/sandboxes", { templateID: own }),
        publish(own, false),
        fixture.call("DELETE", `/templates/${theirs}`, undefined, stranger),
        ...names.map(() => storeBuild(fixture, own).then(() => ({ status: 200 }))),
      ]);
      const statuses = replies.map(({ status }) => status);
      expect(statuses.filter((status) => ![200, 201, 204, 404, 409].includes(status))).toEqual([]);
      // A template claims all of its names, or none.
      const holders = await Promise.all(names.map((name) => fixture.store.templates.byAlias("", name)));
      expect(new Set(holders.map((holder) => holder?.id)).size).toBe(1);
      expect((await fixture.store.templates.byId(own))?.buildCount).toBe(3);
    }
  });

  test("concurrent builds of one name do not deadlock, and one continues", async () => {
    for (let round = 0; round < 8; round++) {
      const name = `many-${round}`;
      await storeTemplate(fixture, name);
      const request = (tag: string) => fixture.call("POST", "/v3/templates", { name, tags: [tag] });
      const requested = await Promise.all(["v1", "v2", "v3"].map(request));
      const builds = requested.map(({ body }) => body as unknown as { templateID: string; buildID: string });
      const replies = await Promise.all([
        ...builds.map(({ templateID, buildID }) =>
          fixture.call("POST", `/v2/templates/${templateID}/builds/${buildID}`, { fromTemplate: "base" }),
        ),
        ...["v3", "v2", "v1"].map(request),
      ]);
      const statuses = [...requested, ...replies].map(({ status }) => status);
      expect(statuses.filter((status) => ![202, 400].includes(status))).toEqual([]);
      await fixture.until(async () => (await fixture.store.builds.unfinished("building")).length === 0);
      expect((await fixture.store.templates.byId(builds[0]?.templateID ?? ""))?.buildCount).toBe(7);
      // This also ends waiting builds: a team may have only a few.
      expect((await fixture.call("DELETE", `/templates/${name}`)).status).toBe(204);
    }
  });

  test("a restart adopts running sandboxes", async () => {
    const id = await fixture.create({ timeout: 60 });
    await fixture.restart();
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(200);
    await fixture.advance(60_000);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect(fixture.host.running).toEqual([]);
  });
});
