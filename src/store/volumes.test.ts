/** Volumes on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, NOW, template } from "./testing/rows.ts";
import type { Volume } from "./volumes.ts";

function aVolume(id: string, changes: Partial<Volume> = {}): Volume {
  return { id, teamId: "team-1", name: id, sizeMB: 64, createdAt: NOW, isReady: true, deletedAt: null, ...changes };
}

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

    test("names are unique in a team, and free once the volume is being removed", async () => {
      expect(await store.volumes.add(aVolume("one", { name: "data" }))).toBe(true);
      expect(await store.volumes.add(aVolume("two", { name: "data" }))).toBe(false);
      expect(await store.volumes.add(aVolume("other", { name: "data", teamId: "team-2" }))).toBe(true);
      expect(await store.volumes.markDeleted("one", NOW)).toBe(true);
      expect(await store.volumes.markDeleted("one", NOW)).toBe(false);
      expect(await store.volumes.add(aVolume("two", { name: "data" }))).toBe(true);
      expect(await store.volumes.byName("team-1", "data")).toEqual(aVolume("two", { name: "data" }));
      expect((await store.volumes.unfinished()).map(({ id }) => id)).toEqual(["one"]);
      await store.volumes.remove("one");
      expect(await store.volumes.unfinished()).toEqual([]);
    });

    test("a volume in creation cannot be used, but counts", async () => {
      await store.volumes.add(aVolume("new", { isReady: false }));
      expect(await store.volumes.byId("new")).toBeUndefined();
      expect(await store.volumes.of("team-1")).toEqual([]);
      expect(await store.volumes.keep("new", "team-1")).toBe(false);
      expect(await store.volumes.countOf("team-1")).toBe(1);
      await store.volumes.markReady("new");
      expect((await store.volumes.of("team-1")).map(({ id }) => id)).toEqual(["new"]);
      expect(await store.volumes.keep("new", "team-1")).toBe(true);
      expect(await store.volumes.keep("new", "team-2")).toBe(false);
    });

    test("sandboxes with a volume are found in every state", async () => {
      const mounts = [{ volumeId: "5a4d1075-ba5e-4000-8000-000000000001", name: "v", path: "/v" }];
      await store.templates.add(template("template1"));
      await store.sandboxes.add(aSandbox("i1", { volumeMounts: mounts }));
      await store.sandboxes.add(aSandbox("i2", { volumeMounts: mounts, state: "paused", createdAt: NOW + 1 }));
      await store.sandboxes.add(aSandbox("i3"));
      expect((await store.sandboxes.byId("i1"))?.volumeMounts).toEqual(mounts);
      const { volumeId } = mounts[0] ?? { volumeId: "" };
      expect(await store.volumes.sandboxesWith(volumeId, 5)).toEqual(["i1", "i2"]);
      expect(await store.volumes.sandboxesWith(volumeId, 1)).toEqual(["i1"]);
      expect(await store.volumes.sandboxesWith("5a4d1075", 5)).toEqual([]);
    });

    test("the first stored secret stays", async () => {
      expect(await store.volumes.signingSecret("first")).toBe("first");
      expect(await store.volumes.signingSecret("second")).toBe("first");
    });
  });
}
