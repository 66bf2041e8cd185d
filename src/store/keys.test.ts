/** Keys and tokens on both engines: their owners, and their limits under concurrent creation. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { AccessToken, ApiKey } from "./keys.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { LATER, NOW } from "./testing/rows.ts";

const mask = { maskPrefix: "ab", maskSuffix: "wxyz", valueLength: 40 };

function aKey(id: string, changes: Partial<ApiKey> = {}): ApiKey {
  return {
    id,
    teamId: "team-1",
    name: "first",
    hash: `hash of ${id}`,
    ...mask,
    createdAt: NOW,
    createdBy: "user-1",
    lastUsedAt: null,
    ...changes,
  };
}

function aToken(id: string, userId = "user-1"): AccessToken {
  return { id, userId, name: "cli", hash: `hash of ${id}`, ...mask, createdAt: NOW };
}

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["1", "2"]) {
        await store.people.addUser({ id: `user-${id}`, email: `${id}@localhost`, createdAt: NOW });
        const team = { id: `team-${id}`, name: `team-${id}`, slug: `team-${id}`, limits: {}, createdAt: NOW };
        await store.people.addTeam(team);
        await store.people.join(`user-${id}`, `team-${id}`, true);
      }
    });

    afterEach(() => store.close());

    test("a key is found by its hash until it is removed by its own team", async () => {
      const key = aKey("k1");
      await store.keys.addApiKey(key);
      expect((await store.keys.apiKeyByHash("hash of k1"))?.team.slug).toBe("team-1");
      await store.keys.noteApiKeyUse("k1", LATER);
      const listed = { ...key, lastUsedAt: LATER, creatorEmail: "1@localhost" };
      expect(await store.keys.apiKeysOf("team-1")).toEqual([listed]);
      expect(await store.keys.removeApiKey("team-2", "k1")).toBe(false);
      expect(await store.keys.removeApiKey("team-1", "k1")).toBe(true);
      expect(await store.keys.apiKeyByHash("hash of k1")).toBeUndefined();
    });

    test("a key is renamed by its own team only, and listed with the team's others, oldest first", async () => {
      await store.keys.addApiKey(aKey("k2", { createdAt: LATER, createdBy: null }));
      await store.keys.addApiKey(aKey("k1"));
      await store.keys.addApiKey(aKey("k3", { teamId: "team-2" }));
      expect(await store.keys.renameApiKey("team-2", "k1", "stolen")).toBe(false);
      expect(await store.keys.renameApiKey("team-1", "k1", "ключ")).toBe(true);
      expect(
        (await store.keys.apiKeysOf("team-1")).map(({ id, name, creatorEmail }) => [id, name, creatorEmail]),
      ).toEqual([
        ["k1", "ключ", "1@localhost"],
        ["k2", "first", null],
      ]);
    });

    test("a token is listed and removed by its own user only", async () => {
      await store.keys.addAccessToken(aToken("t1"));
      await store.keys.addAccessToken(aToken("t2", "user-2"));
      expect(await store.keys.accessTokensOf("user-1")).toEqual([aToken("t1")]);
      expect(await store.keys.removeAccessToken("user-2", "t1")).toBe(false);
      expect(await store.keys.removeAccessToken("user-1", "t1")).toBe(true);
      expect(await store.keys.accessTokenByHash("hash of t1")).toBeUndefined();
      expect((await store.keys.accessTokenByHash("hash of t2"))?.id).toBe("t2");
    });

    test("a user is a member of joined teams only", async () => {
      const member = await store.people.member("user-1", "team-1");
      expect([member?.team.slug, member?.email]).toEqual(["team-1", "1@localhost"]);
      expect(await store.people.member("user-1", "team-2")).toBeUndefined();
      expect(await store.people.member("nobody", "team-1")).toBeUndefined();
    });

    test("concurrent count-then-add transactions of one team or user are serialised", async () => {
      const most = 3;
      const addKey = (nth: number) =>
        store.transaction(async ({ people, keys }) => {
          await people.holdTeam("team-1");
          if ((await keys.countApiKeys("team-1")) < most) await keys.addApiKey(aKey(`k${nth}`));
        });
      const addToken = (nth: number) =>
        store.transaction(async ({ people, keys }) => {
          await people.holdUser("user-1");
          if ((await keys.accessTokensOf("user-1")).length < most) await keys.addAccessToken(aToken(`t${nth}`));
        });
      await Promise.all(Array.from({ length: 12 }, (_, nth) => (nth % 2 === 0 ? addKey(nth) : addToken(nth))));
      expect(await store.keys.countApiKeys("team-1")).toBe(most);
      expect(await store.keys.accessTokensOf("user-1")).toHaveLength(most);
    });
  });
}
