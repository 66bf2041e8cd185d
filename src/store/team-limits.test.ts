/** A team's limits and its use of them, in SQLite and in Postgres: one contract, two engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, NOW, template } from "./testing/rows.ts";

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["team-1", "team-2"]) {
        await store.people.addTeam({ id, name: id, slug: id, limits: { sandboxes: 3 }, createdAt: NOW });
      }
      await store.templates.add(template("template1"));
    });

    afterEach(() => store.close());

    test("a team's limits are replaced together, and unreadable limits are an error", async () => {
      const secret = { hash: "hash-1", maskPrefix: "ab", maskSuffix: "cd", valueLength: 40 };
      const use = { createdAt: NOW, createdBy: null, lastUsedAt: null };
      await store.keys.addApiKey({ id: "key-1", teamId: "team-1", name: "key", ...secret, ...use });
      const limits = { sandboxes: 5, runSeconds: 3600, builds: 2, reads: 9, changes: 7, blocked: true };
      await store.people.setLimits("team-1", limits);
      expect(await store.people.teamCount()).toBe(2);
      expect((await store.people.teams()).map((team) => [team.id, team.limits])).toEqual([
        ["team-1", limits],
        ["team-2", { sandboxes: 3 }],
      ]);
      expect((await store.keys.apiKeyByHash("hash-1"))?.team.limits).toEqual(limits);
      await store.people.setLimits("team-1", { sandboxes: undefined });
      expect((await store.people.team("team-1"))?.limits).toEqual({});
      for (const wrong of [{ sandboxes: 0 }, { runSeconds: "60" }, { blocked: 1 }, { sandbox: 1 }]) {
        await store.people.setLimits("team-1", wrong as object);
        await expect(store.people.team("team-1")).rejects.toThrow('limits of team "team-1" cannot be read');
        await expect(store.keys.apiKeyByHash("hash-1")).rejects.toThrow("cannot be read");
      }
      expect((await store.people.team("team-2"))?.limits).toEqual({ sandboxes: 3 });
    });

    test("running and transitional sandboxes use a slot, ending ones do not", async () => {
      const over = { endAt: NOW };
      const held = {
        irunning: {},
        iwaitstopause: { ...over, autoPause: true },
        ipausing: { ...over, state: "pausing" },
        iresuming: { ...over, state: "resuming" },
        isnapshotting: { ...over, state: "snapshotting" },
      } as const;
      const free = {
        iover: over,
        ipaused: { state: "paused" },
        ikilling: { state: "killing" },
        itobekilled: { state: "pausing", killWanted: true },
        iothers: { teamId: "team-2" },
      } as const;
      for (const [id, changes] of Object.entries({ ...held, ...free }))
        await store.sandboxes.add(aSandbox(id, changes));
      expect((await store.sandboxes.holdingQuota("team-1", NOW)).toSorted()).toEqual(Object.keys(held).toSorted());
    });
  });
}
