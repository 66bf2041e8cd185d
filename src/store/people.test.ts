/** Users, teams and memberships on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { NOW } from "./testing/rows.ts";

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["1", "2"]) {
        await store.people.addUser({ id: `user-${id}`, email: `${id}@localhost`, createdAt: NOW });
        await store.people.addTeam({ id: `team-${id}`, name: "a", slug: `team-${id}`, limits: {}, createdAt: NOW });
      }
    });

    afterEach(() => store.close());

    const teamsOf = async (user: string) =>
      (await store.people.teamsOf(user)).map(({ team, isDefault }) => [team.id, isDefault]);

    test("a second team with a slug, or user with an email address, is not added", async () => {
      const { people } = store;
      expect(await people.addTeam({ id: "x", name: "b", slug: "team-1", limits: {}, createdAt: NOW })).toBe(false);
      expect(await people.addUser({ id: "x", email: "1@localhost", createdAt: NOW })).toBe(false);
      expect([await people.teamCount(), await people.userCount()]).toEqual([2, 2]);
    });

    test("the chosen team is the default, and without a choice the first by slug", async () => {
      await store.people.join("user-1", "team-2", true);
      await store.people.join("user-1", "team-1", false);
      expect(await teamsOf("user-1")).toEqual([
        ["team-2", true],
        ["team-1", false],
      ]);
      await store.people.prefer("user-1", "team-1");
      expect(await teamsOf("user-1")).toEqual([
        ["team-1", true],
        ["team-2", false],
      ]);
      expect(await store.people.leave("user-1", "team-1")).toBe(true);
      expect(await store.people.leave("user-1", "team-1")).toBe(false);
      expect(await teamsOf("user-1")).toEqual([["team-2", true]]);
    });

    test("a removed user is in no team, has no token, and keys keep no creator", async () => {
      const secret = { maskPrefix: "ab", maskSuffix: "cd", valueLength: 40, createdAt: NOW, name: "n" };
      await store.people.join("user-1", "team-1", true);
      await store.keys.addAccessToken({ ...secret, id: "t", userId: "user-1", hash: "t" });
      for (const team of ["team-1", "team-2"]) {
        await store.keys.addApiKey({
          ...secret,
          id: team,
          teamId: team,
          hash: team,
          createdBy: "user-1",
          lastUsedAt: null,
        });
      }
      expect(await store.keys.countApiKeysBy("user-1")).toBe(2);
      expect(await store.keys.removeApiKeysBy("user-1", "team-2")).toBe(1);
      expect(await store.people.removeUser("user-1")).toBe(true);
      expect(await store.people.removeUser("user-1")).toBe(false);
      expect(await store.people.membersOf("team-1")).toEqual([]);
      expect(await store.keys.accessTokenByHash("t")).toBeUndefined();
      expect((await store.keys.apiKeysOf("team-1")).map(({ createdBy }) => createdBy)).toEqual([null]);
    });
  });
}
