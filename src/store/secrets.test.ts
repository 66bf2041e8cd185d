/** Secrets, their use and signing keys, on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Secret } from "./secrets.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { NOW } from "./testing/rows.ts";

function aSecret(id: string, changes: Partial<Secret> = {}): Secret {
  return { id, teamId: "team-1", name: id, version: 1, metadata: {}, createdAt: NOW, updatedAt: NOW, ...changes };
}
const aVersion = (secretId: string, version: number, keyId = "k1") => ({
  secretId,
  version,
  sealed: `${secretId}-${version}`,
  keyId,
  createdAt: NOW,
});

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;
    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["team-1", "team-2"]) {
        await store.people.addTeam({ id, name: id, slug: id, limits: {}, createdAt: NOW });
      }
    });
    afterEach(() => store.close());

    test("names are unique in a team, and pages follow each other", async () => {
      const { secrets } = store;
      expect(await secrets.add(aSecret("a", { metadata: { k: "v" } }))).toBe(true);
      expect(await secrets.add(aSecret("b", { name: "a" }))).toBe(false);
      expect(await secrets.add(aSecret("c", { name: "a", teamId: "team-2" }))).toBe(true);
      expect(await secrets.add(aSecret("d", { createdAt: NOW + 1 }))).toBe(true);
      expect(await secrets.byName("team-1", "a")).toEqual(aSecret("a", { metadata: { k: "v" } }));
      expect(await secrets.byId("team-2", "a")).toBeUndefined();
      expect((await secrets.list("team-1", undefined, 9)).map(({ id }) => id)).toEqual(["d", "a"]);
      expect((await secrets.list("team-1", { createdAt: NOW + 1, id: "d" }, 9)).map(({ id }) => id)).toEqual(["a"]);
      expect(await secrets.countOf("team-1")).toBe(2);
    });

    test("only the newest version is read, and old ones can be removed", async () => {
      const { secrets } = store;
      await secrets.add(aSecret("a", { metadata: { k: "v" } }));
      await secrets.addVersion(aVersion("a", 1));
      expect(await secrets.raise("a", null, NOW + 5)).toEqual(
        aSecret("a", { version: 2, metadata: { k: "v" }, updatedAt: NOW + 5 }),
      );
      await secrets.addVersion(aVersion("a", 2));
      expect((await secrets.raise("a", {}, NOW + 6))?.metadata).toEqual({});
      await secrets.addVersion(aVersion("a", 3));
      const newest = { teamId: "team-1", secretId: "a", name: "a", version: 3, sealed: "a-3", keyId: "k1" };
      expect(await secrets.valuesOf("team-1", ["a", "none"])).toEqual([newest]);
      expect(await secrets.valuesOf("team-2", ["a"])).toEqual([]);
      await secrets.removeVersionsUpTo("a", 2);
      expect(await secrets.sealedOtherwise("k2", 9)).toEqual([newest]);
      await secrets.reseal(newest, { sealed: "new", keyId: "k2" });
      await secrets.reseal(newest, { sealed: "late", keyId: "k3" });
      expect(await secrets.valuesOf("team-1", ["a"])).toEqual([{ ...newest, sealed: "new", keyId: "k2" }]);
      expect([await secrets.sealedOtherwise("k2", 9), await secrets.hasValues()]).toEqual([[], true]);
      expect([await secrets.remove("a"), await secrets.remove("a")]).toEqual([true, false]);
      expect([await secrets.hasValues(), await secrets.raise("a", null, NOW)]).toEqual([false, undefined]);
    });

    test("uses add up, and only the last stay", async () => {
      const { secretUses } = store;
      await store.secrets.add(aSecret("a"));
      const use = { secretId: "a", version: 1, sandboxId: "i1", host: "a.test", count: 2, firstAt: NOW, lastAt: NOW };
      await secretUses.add(use);
      await secretUses.add({ ...use, count: 3, firstAt: NOW + 5, lastAt: NOW + 9 });
      await secretUses.add({ ...use, host: "b.test" });
      await secretUses.add({ ...use, secretId: "gone" });
      const [sum, other] = [
        { ...use, count: 5, lastAt: NOW + 9 },
        { ...use, host: "b.test" },
      ];
      expect(await secretUses.of("a", 0, 9)).toEqual([sum, other]);
      expect(await secretUses.of("a", 1, 9)).toEqual([other]);
      expect((await secretUses.hostsOf("a", "i1", 9)).toSorted()).toEqual(["a.test", "b.test"]);
      await secretUses.removeBeyond("a", 1);
      expect(await secretUses.of("a", 0, 9)).toEqual([sum]);
      while ((await store.teamLeftovers.removeSome("team-1", 1)) > 0);
      expect([await secretUses.of("a", 0, 9), await store.secrets.countOf("team-1")]).toEqual([[], 0]);
    });

    test("signing keys are listed newest first", async () => {
      const { signingKeys } = store;
      const key = (id: string, createdAt: number) => ({ id, publicKey: "{}", sealed: "s", keyId: "k1", createdAt });
      for (const each of [key("one", NOW), key("two", NOW + 1)]) await signingKeys.add(each);
      expect((await signingKeys.list(9)).map(({ id }) => id)).toEqual(["two", "one"]);
      await signingKeys.reseal(key("one", NOW), { sealed: "new", keyId: "k2" });
      expect((await signingKeys.sealedOtherwise("k2", 9)).map(({ id }) => id)).toEqual(["two"]);
      await signingKeys.removeSealedOtherwise("k2");
      expect(await signingKeys.list(9)).toEqual([{ ...key("one", NOW), sealed: "new", keyId: "k2" }]);
      await signingKeys.removeBefore(NOW + 1);
      expect(await signingKeys.list(9)).toEqual([]);
    });

    test("a value that a transaction holds cannot change until it ends", async () => {
      await store.serverState.set("key", "one", NOW);
      expect(await store.serverState.hold("key", "two")).toBe(false);
      const order: string[] = [];
      const held = Promise.withResolvers<void>();
      const holding = store.transaction(async (tables) => {
        expect(await tables.serverState.hold("key", "one")).toBe(true);
        held.resolve();
        for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
        order.push("held");
      });
      await held.promise;
      const setting = store.serverState.set("key", "two", NOW).then(() => order.push("set"));
      await Promise.all([holding, setting]);
      expect(order).toEqual(["held", "set"]);
    });
  });
}
