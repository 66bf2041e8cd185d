/** Builds, their tags and their logs, in SQLite and in Postgres. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Build, BuildResult, BuildWanted } from "./builds.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aBuild, aSandbox, LATER, NOW, template } from "./testing/rows.ts";

const T = "template1";
const RESULT: BuildResult = {
  image: "image-1",
  defaultUser: "root",
  defaultWorkdir: "/srv",
  envVars: { A: "b" },
  guestVersion: "0.6.4",
  checkpoint: "c1",
};

function wanted(id: string, tags: string[] = ["default"]): BuildWanted {
  const { templateId, generation, cpuCount, memoryMB, diskSizeMB, createdAt } = aBuild(id, T, { generation: 3 });
  return { id, templateId, generation, tags, cpuCount, memoryMB, diskSizeMB, createdAt };
}

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      for (const id of ["team-1", "team-2"]) {
        await store.people.addTeam({ id, name: id, slug: id, limits: {}, createdAt: NOW });
      }
      await store.templates.add({ ...template(T), teamId: "team-1" });
    });
    afterEach(() => store.close());

    const request = (id: string, tags?: string[]) =>
      store.transaction((tables) => tables.builds.request(wanted(id, tags)));
    const finish = (id: string, result = RESULT, at = LATER) =>
      store.transaction((tables) => tables.builds.finish(id, result, at));
    const add = (id: string, changes: Parameters<typeof aBuild>[2], templateId = T) =>
      store.transaction((tables) => tables.builds.addFinished(aBuild(id, templateId, changes)));
    const idsOf = (builds: readonly Build[]) => builds.map(({ id }) => id);
    const meaning = async (tag: string) => (await store.builds.tagged(T, tag))?.id;

    test("a build goes from waiting to building to ready, and then its tags refer to it", async () => {
      const requested = await request("b1", ["default", "v1"]);
      expect(requested).toMatchObject({ number: 1, status: "waiting", image: null, tags: ["default", "v1"] });
      expect(await store.builds.byId("b1")).toEqual(requested);
      expect(await meaning("default")).toBeUndefined();
      expect(await finish("b1")).toBeUndefined();
      const start = { command: "serve \u0000", ready: null };
      expect(await store.builds.begin("b1", start, NOW + 1)).toMatchObject({ status: "building", start });
      expect(await store.builds.begin("b1", null, NOW + 2)).toBeUndefined();
      expect(await store.builds.ready(T, "b1")).toBeUndefined();
      const done = await finish("b1");
      expect(done).toMatchObject({ ...RESULT, status: "ready", start, finishedAt: LATER, updatedAt: LATER });
      expect(await store.builds.tagged(T, "v1")).toEqual(done);
      expect(await store.builds.ready(T, "b1")).toEqual(done);
      expect(await store.builds.variables(1)).toEqual([RESULT.envVars]);
      expect(await finish("b1")).toBeUndefined();
      expect(await store.builds.fail("b1", { message: "late", step: null }, LATER)).toBeUndefined();
      expect(await store.templates.byId(T)).toMatchObject({ buildCount: 1, updatedAt: LATER });
    });

    test("a build fails with its reason, begun or not, and its tags refer to the previous build", async () => {
      await add("b0", {});
      await request("b1");
      await request("b2");
      await store.builds.begin("b2", null, NOW);
      const reason = { message: "exit code 1 \u0000", step: "3" };
      for (const id of ["b1", "b2"]) {
        expect(await store.builds.fail(id, reason, LATER)).toMatchObject({
          status: "error",
          reason,
          finishedAt: LATER,
        });
      }
      expect(await meaning("default")).toBe("b0");
      expect(await store.builds.begin("b1", null, LATER)).toBeUndefined();
    });

    test("a tag refers to the last requested build, in whatever order builds become ready", async () => {
      for (const id of ["b1", "b2"]) {
        await request(id, ["default", id]);
        await store.builds.begin(id, null, NOW);
      }
      await finish("b2");
      await finish("b1");
      expect([await meaning("default"), await meaning("b1"), await meaning("b2")]).toEqual(["b2", "b1", "b2"]);
      await request("b3");
      await store.builds.begin("b3", null, NOW);
      await store.builds.tag(T, "default", "b1", LATER);
      await finish("b3");
      expect(await meaning("default")).toBe("b1");
      expect(await store.builds.tagsOf(T)).toEqual([
        { tag: "b1", buildId: "b1", createdAt: LATER },
        { tag: "b2", buildId: "b2", createdAt: LATER },
        { tag: "default", buildId: "b1", createdAt: LATER },
      ]);
      await store.builds.untag(T, "b2", LATER);
      expect(await meaning("b2")).toBeUndefined();
    });

    test("concurrently requested builds have different numbers", async () => {
      const requested = await Promise.all(Array.from({ length: 20 }, (_, nth) => request(`b${nth}`)));
      expect(requested.map((build) => build?.number ?? 0).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 20 }, (_, nth) => nth + 1),
      );
      const pages: string[][] = [];
      for (let before: number | undefined; ; ) {
        const page = await store.builds.ofTemplate(T, before, 8);
        if (page.length === 0) break;
        pages.push(idsOf(page));
        before = page.at(-1)?.number;
      }
      expect(pages.map(({ length }) => length)).toEqual([8, 8, 4]);
      expect(new Set(pages.flat()).size).toBe(20);
    });

    test("a deleted template has no new builds, results or checkpoints", async () => {
      await request("b1");
      await request("b5");
      await store.builds.begin("b1", null, NOW);
      await add("b2", { checkpoint: "c2" });
      await store.templates.delete(T, LATER);
      expect(await request("b3")).toBeUndefined();
      expect(await finish("b1")).toBeUndefined();
      expect(await add("b4", {})).toBeUndefined();
      expect(await store.builds.begin("b5", null, LATER)).toBeUndefined();
      const to = { checkpoint: "c3", guestVersion: "0.6.4" };
      expect(await store.builds.replaceCheckpoint("b2", "c2", to, LATER)).toBe(false);
    });

    test("a checkpoint is replaced once, and only while it is the build's", async () => {
      await add("b1", { checkpoint: "c1" });
      const to = (checkpoint: string) => ({ checkpoint, guestVersion: "9.9.9" });
      const tries = ["c2", "c3", "c4"].map((name) => store.builds.replaceCheckpoint("b1", "c1", to(name), LATER));
      expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1);
      expect(await store.builds.byId("b1")).toMatchObject({ guestVersion: "9.9.9", status: "ready" });
      await add("b2", {});
      expect(await store.builds.replaceCheckpoint("b2", null, to("c5"), LATER)).toBe(true);
      expect((await store.builds.byId("b2"))?.checkpoint).toBe("c5");
    });

    test("unfinished builds are found by state, by template and by team", async () => {
      await store.templates.add({ ...template("template2"), teamId: "team-2" });
      for (const id of ["b1", "b2", "b3"]) await request(id);
      await store.builds.begin("b2", null, NOW);
      expect(idsOf(await store.builds.unfinished("waiting"))).toEqual(["b1", "b3"]);
      expect(idsOf(await store.builds.unfinished("building", T))).toEqual(["b2"]);
      expect(await store.builds.unfinished("building", "template2")).toEqual([]);
      expect(await store.builds.countUnfinished("waiting", "team-1")).toBe(2);
      expect(await store.builds.countUnfinished("waiting", "team-2")).toBe(0);
    });

    test("images and checkpoints are in use by builds, images also by sandboxes", async () => {
      await store.templates.add({ ...template("template2"), teamId: "team-1" });
      await add("b1", { image: "old", checkpoint: "c1" });
      await add("b2", { image: "new", checkpoint: "c2" });
      await add("b3", { image: "other", checkpoint: "c3" }, "template2");
      await store.sandboxes.add(aSandbox("i1", { buildId: "b1" }));
      expect(await store.buildsInUse.images()).toEqual(["new", "old", "other"]);
      await store.templates.delete(T, LATER);
      expect(await store.buildsInUse.images()).toEqual(["old", "other"]);
      expect(await store.buildsInUse.checkpoints()).toEqual(["c3"]);
      expect([await store.buildsInUse.startsFrom("c1"), await store.buildsInUse.startsFrom("c3")]).toEqual([
        false,
        true,
      ]);
      expect((await store.buildsInUse.checkpointsOf(T)).sort()).toEqual(["c1", "c2"]);
    });

    test("builds of built-in templates are retired when another is the default and no sandbox uses them", async () => {
      await store.templates.add(template("builtin"));
      await add("b1", { image: "base-1", tags: ["default", "v1"], checkpoint: "c1" }, "builtin");
      await add("b2", { image: "base-2", tags: ["default", "v2"] }, "builtin");
      await add("b3", { image: "base-3", tags: ["default", "v3"] }, "builtin");
      await add("mine", {});
      await add("newer", {});
      const ending = aSandbox("i1", { buildId: "b2", state: "killing" });
      await store.sandboxes.add(ending);
      const retired = (before: number) => store.buildsInUse.retireBuiltins(before, LATER, 5);
      expect(await retired(NOW)).toEqual({ count: 0, checkpoints: [] });
      expect(await retired(NOW + 1)).toEqual({ count: 1, checkpoints: ["c1"] });
      expect(await store.buildsInUse.images()).toEqual(["base", "base-2", "base-3"]);
      expect(await store.builds.tagged("builtin", "v1")).toBeUndefined();
      expect(await store.builds.byId("b1")).toMatchObject({ status: "error", checkpoint: null });
      await store.sandboxes.remove(ending);
      // Without a build that could be started in its place, the previous version stays.
      await store.builds.markLost("b3", { message: "gone", step: null }, NOW);
      expect(await retired(NOW + 1)).toEqual({ count: 0, checkpoints: [] });
      await add("b4", { image: "base-4" }, "builtin");
      expect(await retired(NOW + 1)).toEqual({ count: 1, checkpoints: [] });
      expect(await store.buildsInUse.images()).toEqual(["base", "base-4"]);
      expect(idsOf(await store.builds.readyOf(T)).sort()).toEqual(["mine", "newer"]);
    });

    test("an overview has all templates but deleted ones, with their teams, names and builds", async () => {
      await store.templates.add(template("builtin"));
      await store.templates.addAlias("", "base", "builtin");
      await add("b0", { image: "base" }, "builtin");
      await store.templates.add({ ...template("other"), teamId: "team-2" });
      await store.templates.add({ ...template("gone"), teamId: "team-2" });
      await add("b9", {}, "gone");
      await store.templates.delete("gone", LATER);
      for (const alias of ["web", "api"]) await store.templates.addAlias("team-1", alias, T);
      await add("b1", { checkpoint: "c1", image: "image-1" });
      await request("b2");
      await store.templates.setKeptReady(T, 3);
      const overview = await store.templates.overview();
      expect(overview.map(({ id, teamSlug, names, keptReady }) => [id, teamSlug, names, keptReady])).toEqual([
        ["builtin", null, ["base"], 0],
        [T, "team-1", ["team-1/web", "team-1/api"], 3],
        ["other", "team-2", [], 0],
      ]);
      expect(overview.map(({ builds }) => builds)).toEqual([
        [{ status: "ready", image: "base", checkpoint: null }],
        [
          { status: "ready", image: "image-1", checkpoint: "c1" },
          { status: "waiting", image: null, checkpoint: null },
        ],
        [],
      ]);
    });

    test("the default builds of built-in templates and of templates with a number are kept ready", async () => {
      await store.templates.add(template("builtin"));
      await add("b1", {}, "builtin");
      await add("b2", {}, "builtin");
      await add("b3", {});
      const kept = async () =>
        (await store.buildsInUse.keptReady()).map(({ build, ...rest }) => ({ id: build.id, ...rest }));
      expect(await kept()).toEqual([{ id: "b2", isBuiltIn: true, count: 0 }]);
      await store.templates.setKeptReady(T, 3);
      expect(await kept()).toContainEqual({ id: "b3", isBuiltIn: false, count: 3 });
      await store.templates.delete(T, LATER);
      expect(await kept()).toHaveLength(1);
    });

    test("a log stores entries up to its bound and is read by position, by time and by level", async () => {
      await request("b1");
      const entry = (nth: number) => ({
        at: NOW + nth,
        level: (["debug", "info", "warn", "error"] as const)[nth % 4] ?? "info",
        message: `line ${nth} \u0000 \ud800`,
        step: nth % 2 === 0 ? null : String(nth),
      });
      const entries = Array.from({ length: 250 }, (_, nth) => entry(nth));
      const append = (from: number, to: number, bytesMax = 1_000_000) =>
        store.transaction((tables) => tables.buildLogs.append("b1", entries.slice(from, to), bytesMax));
      expect(await append(0, 240)).toBe(240);
      expect(await append(240, 250)).toBe(10);
      expect((await store.builds.byId("b1"))?.logCount).toBe(250);
      const read = (offset: number, limit: number, level?: "warn") =>
        store.buildLogs.read("b1", { offset, limit, level });
      expect(await read(0, 1000)).toEqual(entries);
      expect(await read(245, 3)).toEqual(entries.slice(245, 248));
      const warned = entries.filter(({ level }) => level === "warn" || level === "error");
      expect(await read(7, 5, "warn")).toEqual(warned.slice(7, 12));
      const byTime = (direction: "forward" | "backward") =>
        store.buildLogs.readByTime("b1", { cursor: NOW + 100, direction, limit: 2 });
      expect(await byTime("forward")).toEqual(entries.slice(100, 102));
      expect(await byTime("backward")).toEqual([entry(100), entry(99)]);
      const taken = await append(0, 250, 25_000);
      expect(taken).toBeLessThan(250);
      expect(await append(taken, 250, 25_000)).toBe(0);
      expect(await store.transaction((tables) => tables.buildLogs.append("none", entries, 1_000_000))).toBe(0);
    });

    test("logs of finished builds are removed entry by entry, the oldest first", async () => {
      const entries = Array.from(
        { length: 5 },
        () => ({ at: NOW, level: "info", message: "line", step: null }) as const,
      );
      for (const [id, at] of [
        ["b1", NOW + 1],
        ["b2", NOW + 2],
        ["b3", null],
      ] as const) {
        await request(id);
        await store.builds.begin(id, null, NOW);
        await store.transaction(({ buildLogs }) => buildLogs.append(id, entries, 10_000));
        if (at !== null) await store.builds.fail(id, { message: "over", step: null }, at);
      }
      const left = async (id: string) => (await store.buildLogs.read(id, { offset: 0, limit: 10 })).length;
      const lefts = () => Promise.all(["b1", "b2", "b3"].map(left));
      const [team = ""] = await store.buildLogs.teamsAbove(100);
      expect([await store.buildLogs.teamsAbove(10_000), team]).toEqual([[], "team-1"]);
      const before = (at: number) => store.transaction(({ buildLogs }) => buildLogs.removeBefore(at, 3));
      expect([await before(NOW + 2), await before(NOW + 2), await before(NOW + 2)]).toEqual([3, 2, 0]);
      expect(await lefts()).toEqual([0, 5, 5]);
      const oldest = () => store.transaction(({ buildLogs }) => buildLogs.removeOldestOfTeam(team, 3));
      expect([await oldest(), await oldest(), await oldest()]).toEqual([3, 2, 0]);
      expect(await lefts()).toEqual([0, 0, 5]);
    });

    test("a tag refers to the build it was assigned last, and snapshots are listed by it", async () => {
      const { templates } = store;
      await templates.addAlias("team-1", "own", T);
      await add("b1", { tags: ["default", "v1"], checkpoint: "c1", sourceSandbox: "i1" });
      await add("b2", { checkpoint: "c2", sourceSandbox: "i2", createdAt: NOW + 1 });
      // With a start command, and of no sandbox.
      await add("b3", { tags: ["started"], checkpoint: "c3" });
      expect([await meaning("v1"), await meaning("default")]).toEqual(["b1", "b2"]);
      const all = { teamId: "team-1", sandboxId: undefined, templateId: undefined, tag: undefined };
      const [first] = await templates.snapshots(all, undefined, 1);
      expect(first).toEqual({ templateId: T, tag: "default", createdAt: NOW + 1 });
      expect(await templates.snapshots(all, first, 5)).toEqual([{ templateId: T, tag: "v1", createdAt: NOW }]);
      expect(await templates.snapshots({ ...all, sandboxId: "i1" }, undefined, 5)).toHaveLength(1);
      expect(await templates.snapshots({ ...all, tag: "v1" }, undefined, 5)).toHaveLength(1);
      expect(await templates.snapshots({ ...all, teamId: "team-2" }, undefined, 5)).toEqual([]);
      await templates.delete(T, LATER);
      expect(await templates.byId(T)).toBeUndefined();
      expect(await templates.byAlias("team-1", "own")).toBeUndefined();
      expect((await templates.everById(T))?.id).toBe(T);
      expect(await templates.snapshots(all, undefined, 5)).toEqual([]);
    });

    test("a snapshot that lost its tags is retired after a while, and nothing else", async () => {
      await add("b1", { tags: ["default", "v1"], checkpoint: "c1", sourceSandbox: "i1" });
      await add("b2", { tags: ["default"], checkpoint: "c2", sourceSandbox: "i1", createdAt: NOW + 10 });
      await add("built", { tags: [], checkpoint: "c3" });
      const retire = async (before: number) => (await store.buildsInUse.retireSnapshots(before, LATER, 5)).checkpoints;
      expect(await retire(NOW + 100)).toEqual([]);
      await store.builds.untag(T, "v1", NOW + 20);
      expect(await retire(NOW + 20)).toEqual([]);
      expect(await retire(NOW + 21)).toEqual(["c1"]);
      expect(await retire(NOW + 100)).toEqual([]);
      expect(await store.builds.byId("b1")).toMatchObject({ status: "error", checkpoint: null, image: "base" });
      expect(await store.builds.ready(T, "b1")).toBeUndefined();
      await store.builds.tag(T, "default", "built", NOW + 30);
      expect(await retire(NOW + 31)).toEqual(["c2"]);
    });

    test("spawns of templates that are not deleted are counted", async () => {
      const { templates } = store;
      expect(await Promise.all([templates.noteSpawn(T, NOW), templates.noteSpawn(T, NOW)])).toEqual([true, true]);
      expect(await templates.byId(T)).toMatchObject({ spawnCount: 2, lastSpawnedAt: NOW });
      await templates.delete(T, LATER);
      expect(await templates.noteSpawn(T, LATER)).toBe(false);
    });
  });
}
