/** The store's contract, tested on SQLite and on Postgres. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../contract/fault.ts";
import { openEngine } from "./engine.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations.ts";
import type { ListFilter, Sandbox } from "./sandboxes.ts";
import { openMigratedStore, openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, LATER, NOW, template } from "./testing/rows.ts";

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let url: string;
    let store: Store;

    beforeEach(async () => {
      url = await fresh();
      store = await openStore(url, NOW);
      await store.people.addUser({ id: "user-1", email: "a@localhost", createdAt: NOW });
      for (const id of ["team-1", "team-2"]) {
        await store.people.addTeam({ id, name: id, slug: id, limits: { sandboxes: 3 }, createdAt: NOW });
      }
      await store.templates.add(template("template1"));
    });

    afterEach(() => store.close());

    test("rows are read back after the store was closed and opened again", async () => {
      const sandbox = aSandbox("i1", {
        metadata: { ключ: "värde\u0000", "": "empty name" },
        envVars: { A: "1=2" },
        mcp: { servers: [{ deep: [null, 1.5, "x"] }] },
        allowInternetAccess: false,
        network: {
          denyOut: ["0.0.0.0/0"],
          egressProxy: { address: "p.test:1080", username: "a", password: "b\u0000" },
        },
        trafficToken: "t",
        egressUnsettled: true,
        tokens: ["old", "new"],
        endAt: NOW + 2_147_483_647_000,
      });
      await store.sandboxes.add(sandbox);
      await store.close();
      store = await openStore(url, LATER);
      expect(await store.sandboxes.byId("i1")).toEqual(sandbox);
      const certain = ["old", "new", "t", "b\u0000"];
      expect(await store.sandboxes.secrets(9)).toEqual({
        certain,
        possible: [sandbox.envVars, { servers: [{ deep: [null, 1.5, "x"] }] }],
      });
      const {
        envVars,
        tokens,
        allowInternetAccess,
        network,
        trafficToken,
        egressUnsettled,
        mcp,
        identityTokens,
        ...listed
      } = sandbox;
      const filter = {
        teamId: "team-1",
        running: true,
        paused: true,
        now: NOW,
        startedAfter: 0,
        templateId: undefined,
      };
      for (const order of ["asc", "desc"] as const) {
        expect(await store.sandboxes.list(filter, order, undefined, 2)).toEqual([listed]);
      }
      expect(await store.templates.byId("template1")).toEqual(template("template1"));
      expect((await store.people.team("team-1"))?.limits).toEqual({ sandboxes: 3 });
    });

    test("egress rules change in a running or transitional run, and a mark records the change", async () => {
      const { sandboxes, egressChanges } = store;
      const run = aSandbox("i1", { allowInternetAccess: true });
      const to = { network: { denyOut: ["9.9.9.9"] }, allowInternetAccess: null };
      await sandboxes.add(run);
      expect(await egressChanges.begin({ ...run, executionId: "other" }, NOW)).toBeUndefined();
      expect(await egressChanges.begin(run, LATER)).toBeUndefined();
      expect(await egressChanges.begin(run, NOW)).toEqual({ ...run, egressUnsettled: true });
      expect(await egressChanges.unsettled()).toEqual(["i1"]);
      await egressChanges.settle({ ...run, executionId: "other" });
      expect(await egressChanges.unsettled()).toEqual(["i1"]);
      await egressChanges.settle(run);
      expect(await egressChanges.unsettled()).toEqual([]);
      await egressChanges.begin(run, NOW);
      const pausing = await sandboxes.beginPause(run, { checkpoint: "c", memory: true, now: NOW });
      expect(await egressChanges.begin(run, NOW)).toBeUndefined();
      expect(await egressChanges.finish(run, to)).toEqual({ ...(pausing ?? run), ...to, egressUnsettled: false });
      await sandboxes.finishPause(run);
      await sandboxes.beginResume(run, "next");
      expect(await egressChanges.finish(run, to)).toBeUndefined();
      await sandboxes.kill({ ...run, executionId: "next" });
      await sandboxes.abandonResume({ ...run, executionId: "next" });
      expect(await egressChanges.finish({ ...run, executionId: "next" }, to)).toBeUndefined();
    });

    test("a database of a newer version is rejected with the name of that version, and unchanged", async () => {
      const engine = await openEngine(url);
      try {
        const future = "future, by sandlot 9.1.0";
        await engine.sql`INSERT INTO schema_versions (version, title, applied_at) VALUES (${99}, ${future}, ${NOW})`;
      } finally {
        await engine.close();
      }
      const refusal = await openStore(url, LATER).catch((fault: unknown) => fault);
      expect(refusal).toBeInstanceOf(Fault);
      expect(String(refusal)).toContain("version 99");
      expect(String(refusal)).toContain(`up to ${migrations.length}. FIX: start sandlot 9.1.0 or later`);
    });

    test("a database of an earlier version is refused beside its server, and unchanged", async () => {
      await (await openMigratedStore(url)).close();
      const engine = await openEngine(url);
      try {
        await engine.sql`DELETE FROM schema_versions WHERE version = ${migrations.length}`;
        const refusal = await openMigratedStore(url).catch((fault: unknown) => fault);
        expect(refusal).toMatchObject({ status: 409 });
        expect(String(refusal)).toContain(`the store has version ${migrations.length - 1}, but this program`);
        const { rows } = await engine.sql`SELECT MAX(version) AS version FROM schema_versions`;
        expect(Number(rows[0]?.version)).toBe(migrations.length - 1);
      } finally {
        await engine.close();
      }
    });

    test("an interrupted migration leaves nothing and is retried", async () => {
      const engine = await openEngine(url);
      try {
        const broken = {
          version: migrations.length + 1,
          title: "breaks",
          apply: async (sql: typeof engine.sql) => {
            await sql`CREATE TABLE half (id TEXT)`;
            throw new Error("power cut");
          },
        };
        await expect(migrate(engine, NOW, [...migrations, broken])).rejects.toThrow("power cut");
        const mended = {
          ...broken,
          apply: async (sql: typeof engine.sql) => void (await sql`CREATE TABLE half (id TEXT)`),
        };
        await migrate(engine, NOW, [...migrations, mended]);
        const { rows } = await engine.sql`SELECT COUNT(*) AS steps FROM schema_versions`;
        expect(Number(rows[0]?.steps)).toBe(migrations.length + 1);
      } finally {
        await engine.close();
      }
    });

    test("a statement outside a transaction survives its rollback", async () => {
      const inside = Promise.withResolvers<void>();
      const finish = Promise.withResolvers<void>();
      const transaction = store.transaction(async (tables) => {
        await tables.sandboxes.add(aSandbox("iinside"));
        inside.resolve();
        await finish.promise;
        throw new Error("rolled back");
      });
      await inside.promise;
      const outside = store.sandboxes.add(aSandbox("ioutside"));
      finish.resolve();
      await expect(transaction).rejects.toThrow("rolled back");
      await outside;
      expect(await store.sandboxes.byId("iinside")).toBeUndefined();
      expect((await store.sandboxes.byId("ioutside"))?.id).toBe("ioutside");
    });

    test("of concurrent state changes of one run, exactly one wins", async () => {
      const sandbox = aSandbox("i1");
      await store.sandboxes.add(sandbox);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, nth) =>
          nth % 2 === 0
            ? store.sandboxes.kill(sandbox)
            : store.sandboxes.beginPause(sandbox, { checkpoint: `c${nth}`, memory: true, now: NOW }),
        ),
      );
      const winners = answers.filter((row) => row !== undefined);
      // A kill may still leave its request with the pause that won.
      expect(winners.map(({ state }) => state)).toEqual(winners.length === 1 ? ["killing"] : ["pausing", "pausing"]);
      expect(winners.length).toBeLessThanOrEqual(2);
    });

    test("a change for another run or state has no effect", async () => {
      await store.sandboxes.add(aSandbox("i1"));
      const otherRun = { id: "i1", executionId: "earlier" };
      expect(await store.sandboxes.kill(otherRun)).toBeUndefined();
      expect(await store.sandboxes.endRunning(otherRun)).toBeUndefined();
      const to = { checkpoint: "c1", memory: true, now: NOW };
      expect(await store.sandboxes.beginPause(otherRun, to)).toBeUndefined();
      expect(await store.sandboxes.beginSnapshot(otherRun, NOW)).toBeUndefined();
      expect(await store.sandboxes.setEnd(otherRun, LATER, NOW)).toBeUndefined();
      for (const wrong of ["finishPause", "abandonPause", "abandonResume", "finishSnapshot"] as const) {
        expect(await store.sandboxes[wrong](aSandbox("i1"))).toBeUndefined();
      }
      expect(await store.sandboxes.beginResume(aSandbox("i1"), "next")).toBeUndefined();
      await store.sandboxes.remove(aSandbox("i1"));
      expect((await store.sandboxes.byId("i1"))?.state).toBe("running");
    });

    test("expiry takes each due sandbox once, and no other", async () => {
      await store.sandboxes.add(aSandbox("idue", { endAt: NOW }));
      await store.sandboxes.add(aSandbox("ilater", { endAt: NOW + 1 }));
      await store.sandboxes.add(aSandbox("ikilling", { endAt: NOW - 5, state: "killing" }));
      expect(await store.sandboxes.earliestEnd()).toBe(NOW);
      expect(await store.sandboxes.takeDue(NOW)).toEqual([aSandbox("idue", { endAt: NOW, state: "killing" })]);
      expect(await store.sandboxes.takeDue(NOW)).toEqual([]);
      expect(await store.sandboxes.earliestEnd()).toBe(NOW + 1);
      expect((await store.sandboxes.inState("killing")).map((run) => run.id)).toEqual(["idue", "ikilling"]);
    });

    test("a kill and an expiry of the same run have one winner", async () => {
      const sandbox = aSandbox("i1", { endAt: NOW });
      await store.sandboxes.add(sandbox);
      const [taken, killed] = await Promise.all([store.sandboxes.takeDue(NOW), store.sandboxes.kill(sandbox)]);
      expect(taken.length + (killed === undefined ? 0 : 1)).toBe(1);
    });

    test("expiry pauses sandboxes with autoPause, with memory until that has failed too often", async () => {
      const due = { endAt: NOW, autoPause: true };
      await store.sandboxes.add(aSandbox("ipause", due));
      await store.sandboxes.add(aSandbox("itried", { ...due, pauseFailures: 3 }));
      await store.sandboxes.add(aSandbox("ifiles", { ...due, autoPauseMemory: false }));
      const taken = await store.sandboxes.takeDue(NOW + 7);
      const facts = taken.map(({ id, state, checkpoint, checkpointMemory, pausedAt }) => [
        id,
        state,
        checkpoint,
        checkpointMemory,
        pausedAt,
      ]);
      expect(facts.sort()).toEqual([
        ["ifiles", "pausing", `run-ifiles-${NOW + 7}`, false, NOW + 7],
        ["ipause", "pausing", `run-ipause-${NOW + 7}`, true, NOW + 7],
        ["itried", "pausing", `run-itried-${NOW + 7}`, false, NOW + 7],
      ]);
    });

    test("a run is paused, resumed as another run, and its pause postponed", async () => {
      const { sandboxes } = store;
      const first = aSandbox("i1");
      await sandboxes.add(first);
      const begun = await sandboxes.beginPause(first, { checkpoint: "c1", memory: true, now: NOW });
      expect(begun).toEqual({ ...first, state: "pausing", checkpoint: "c1", checkpointMemory: true, pausedAt: NOW });
      expect(await sandboxes.abandonPause({ ...first, checkpoint: "c0" })).toBeUndefined();
      expect((await sandboxes.abandonPause({ ...first, checkpoint: "c1" })) ?? {}).toEqual(first);
      await sandboxes.beginPause(first, { checkpoint: "c2", memory: false, now: NOW });
      const paused = await sandboxes.finishPause(first);
      expect(paused).toEqual({ ...first, state: "paused", checkpoint: "c2", pausedAt: NOW });
      expect(await sandboxes.beginResume(first, "run-2")).toEqual({
        ...first,
        ...paused,
        state: "resuming",
        executionId: "run-2",
      });
      const second = { id: "i1", executionId: "run-2" };
      expect((await sandboxes.abandonResume(second))?.state).toBe("paused");
      await sandboxes.beginResume(second, "run-3");
      const third = { id: "i1", executionId: "run-3" };
      const to = { startedAt: NOW + 1, endAt: LATER + 1, tokens: ["t"], autoPause: true, guestVersion: "9.9.9" };
      const running: Sandbox = { ...first, ...to, executionId: "run-3" };
      expect(await sandboxes.finishResume(third, to)).toEqual(running);
      await sandboxes.takeDue(LATER + 1);
      const putOff = await sandboxes.putOffPause(third, LATER + 9);
      expect(putOff).toEqual({ ...running, endAt: LATER + 9, pauseFailures: 1 });
      await sandboxes.beginSnapshot(third, NOW);
      expect((await sandboxes.finishSnapshot(third)) ?? {}).toEqual(putOff ?? {});
    });

    test("a kill during a transition is carried out at the end of the transition", async () => {
      const { sandboxes } = store;
      const to = { checkpoint: "c1", memory: true, now: NOW };
      const lets = {
        ifinishpause: sandboxes.finishPause,
        iabandonpause: sandboxes.abandonPause,
        iputoff: (run: Sandbox) => sandboxes.putOffPause(run, LATER),
        ifinishsnapshot: sandboxes.finishSnapshot,
      };
      for (const [id, finish] of Object.entries(lets)) {
        const run = aSandbox(id);
        await sandboxes.add(run);
        await (id === "ifinishsnapshot" ? sandboxes.beginSnapshot(run, NOW) : sandboxes.beginPause(run, to));
        expect((await sandboxes.kill(run))?.killWanted).toBe(true);
        expect(await sandboxes.kill(run)).toBeUndefined();
        expect((await finish({ ...run, checkpoint: "c1" }))?.state).toBe("killing");
      }
      for (const id of ["ifinishresume", "iabandonresume"]) {
        await sandboxes.add(aSandbox(id, { state: "resuming", checkpoint: "c1", pausedAt: NOW }));
        const run = aSandbox(id);
        await sandboxes.kill(run);
        const fresh = { startedAt: NOW, endAt: LATER, tokens: [], autoPause: false, guestVersion: "9.9.9" };
        const ended =
          id === "ifinishresume" ? await sandboxes.finishResume(run, fresh) : await sandboxes.abandonResume(run);
        expect([ended?.state, ended?.checkpoint]).toEqual(["killing", "c1"]);
      }
      expect(await sandboxes.countOf("template1", "team-1")).toBe(0);
    });

    test("an end is set in both directions, extended in one, and not once it has come", async () => {
      const sandbox = aSandbox("i1", { endAt: NOW + 100 });
      await store.sandboxes.add(sandbox);
      expect((await store.sandboxes.setEnd(sandbox, NOW + 50, NOW))?.endAt).toBe(NOW + 50);
      expect((await store.sandboxes.extendEnd(sandbox, NOW + 20, NOW))?.endAt).toBe(NOW + 50);
      expect((await store.sandboxes.extendEnd(sandbox, LATER, NOW))?.endAt).toBe(LATER);
      expect(await store.sandboxes.setEnd(sandbox, LATER + 1, LATER)).toBeUndefined();
      expect(await store.sandboxes.extendEnd(sandbox, LATER + 1, LATER)).toBeUndefined();
    });

    test("lists page through equal times without loss, and ascending mirrors descending", async () => {
      const ids = ["ic", "ia", "ib", "id"];
      for (const id of ids) await store.sandboxes.add(aSandbox(id, { startedAt: id === "id" ? NOW + 1 : NOW }));
      await store.sandboxes.add(aSandbox("iother", { teamId: "team-2" }));
      await store.sandboxes.add(aSandbox("iover", { endAt: NOW }));
      await store.sandboxes.add(aSandbox("ikilling", { state: "killing" }));
      await store.sandboxes.add(aSandbox("iwanted", { state: "pausing", killWanted: true }));
      await store.sandboxes.add(aSandbox("ipaused", { state: "paused", endAt: NOW, startedAt: NOW - 9 }));
      await store.sandboxes.add(aSandbox("ipausing", { state: "pausing", startedAt: NOW - 8 }));
      await store.sandboxes.add(aSandbox("idue", { autoPause: true, endAt: NOW, startedAt: NOW - 7 }));
      await store.sandboxes.add(aSandbox("icopied", { state: "snapshotting", startedAt: NOW - 6 }));
      const filter: ListFilter = {
        teamId: "team-1",
        running: true,
        paused: true,
        now: NOW,
        startedAfter: 0,
        templateId: undefined,
      };
      const all = await pages(filter, "desc", 2);
      expect(all).toEqual(["id", "ia", "ib", "ic", "icopied", "idue", "ipausing", "ipaused"]);
      expect(await pages(filter, "asc", 2)).toEqual(all.toReversed());
      expect(await store.sandboxes.count(filter)).toBe(8);
      expect(await store.sandboxes.count({ ...filter, paused: false })).toBe(5);
      expect(await store.sandboxes.count({ ...filter, running: false })).toBe(3);
      expect(await pages({ ...filter, startedAfter: NOW + 1 }, "desc", 2)).toEqual(["id"]);
      expect(await pages({ ...filter, templateId: "nothing" }, "desc", 2)).toEqual([]);
    });

    test("a name belongs to one template in each namespace", async () => {
      await store.templates.add(template("template2"));
      expect(await store.templates.addAlias("", "base", "template1")).toBe(true);
      expect(await store.templates.addAlias("", "base", "template2")).toBe(false);
      expect(await store.templates.addAlias("team-1", "base", "template2")).toBe(true);
      expect(await store.templates.addAlias("", "second", "template1")).toBe(true);
      const bare = async (team: string, alias: string) => (await store.templates.byBareAlias(team, alias))?.id;
      expect(await bare("team-1", "base")).toBe("template2");
      expect(await bare("team-2", "base")).toBe("template1");
      expect(await bare("team-1", "second")).toBe("template1");
      expect(await bare("team-1", "none")).toBeUndefined();
      expect((await store.templates.byAlias("", "base"))?.id).toBe("template1");
      expect((await store.templates.byAlias("team-1", "base"))?.id).toBe("template2");
      expect(await store.templates.byAlias("team-2", "base")).toBeUndefined();
      expect(await store.templates.aliasesOf("template1")).toEqual(["base", "second"]);
    });

    test("a sandbox of an unknown team or template is rejected", async () => {
      await expect(store.sandboxes.add(aSandbox("i1", { teamId: "nobody" }))).rejects.toThrow();
      await expect(store.sandboxes.add(aSandbox("i1", { templateId: "nothing" }))).rejects.toThrow();
    });

    async function pages(filter: ListFilter, order: "asc" | "desc", size: number): Promise<string[]> {
      const ids: string[] = [];
      let page = await store.sandboxes.list(filter, order, undefined, size);
      while (page.length > 0) {
        expect(page.length).toBeLessThanOrEqual(size);
        ids.push(...page.map((sandbox) => sandbox.id));
        page = await store.sandboxes.list(filter, order, page.at(-1), size);
      }
      return ids;
    }
  });
}

test("an unknown database URL is rejected with its scheme", async () => {
  await expect(openStore("mysql://root:secret@host/x", NOW)).rejects.toThrow('unknown database scheme "mysql"');
});
