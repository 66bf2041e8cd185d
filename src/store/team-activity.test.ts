/** Rows with a team's number of running sandboxes, on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openStore, type Store } from "./store.ts";
import type { TeamActivity } from "./team-activity.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, NOW, template } from "./testing/rows.ts";

const STEP = 5_000;

function activity(at: number, changes: Partial<TeamActivity> = {}): TeamActivity {
  return {
    teamId: "team-1",
    at: NOW + at,
    stepMs: STEP,
    opening: 0,
    closing: 1,
    peak: 1,
    starts: 1,
    busiest: 1,
    ...changes,
  };
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

    const rowsOf = (teamId: string) => store.teamActivity.around(teamId, 0, Number.MAX_SAFE_INTEGER);

    test("events within a step are added to its row", async () => {
      await store.teamActivity.add(activity(0, { closing: 4, peak: 4, starts: 4 }));
      await store.teamActivity.add(activity(0, { opening: 4, closing: 1, peak: 4, starts: 0 }));
      await store.teamActivity.add(activity(0, { opening: 1, closing: 6, peak: 6, starts: 5 }));
      const whole = activity(0, { opening: 0, closing: 6, peak: 6, starts: 9, busiest: 9 });
      expect(await rowsOf("team-1")).toEqual([whole]);
      // A coarser row keeps how busy its busiest step was.
      await store.teamActivity.put({ ...whole, stepMs: 30_000 });
      await store.teamActivity.add(activity(0, { closing: 2, peak: 3, starts: 2 }));
      expect(await rowsOf("team-1")).toEqual([{ ...whole, stepMs: 30_000, closing: 2, starts: 11 }]);
    });

    test("a team's count includes its sandboxes except paused and ending ones", async () => {
      await store.templates.add(template("template1"));
      for (const [nth, state] of ["running", "running", "snapshotting", "paused", "killing"].entries()) {
        await store.sandboxes.add(aSandbox(`i${nth}`, { state: state as "running" }));
      }
      await store.teamActivity.add(activity(0, { opening: 7, closing: 8, peak: 9, starts: 2 }));
      await store.teamActivity.addCounted(NOW, STEP);
      await store.teamActivity.addCounted(NOW + STEP, STEP);
      const counted = { opening: 3, closing: 3, peak: 3, starts: 0, busiest: 0 };
      expect(await rowsOf("team-1")).toEqual([
        activity(0, { opening: 7, closing: 3, peak: 9, starts: 2, busiest: 2 }),
        activity(STEP, counted),
      ]);
      const none = { teamId: "team-2", opening: 0, closing: 0, peak: 0, starts: 0, busiest: 0 };
      expect(await rowsOf("team-2")).toEqual([activity(0, none), activity(STEP, none)]);
    });

    test("a window has its rows and the last one before it, of its own team", async () => {
      for (const at of [0, 10_000, 20_000, 30_000]) await store.teamActivity.add(activity(at));
      await store.teamActivity.add(activity(15_000, { teamId: "team-2" }));
      const times = async (from: number, to: number) =>
        (await store.teamActivity.around("team-1", NOW + from, NOW + to)).map(({ at }) => at - NOW);
      expect(await times(15_000, 25_000)).toEqual([10_000, 20_000]);
      expect(await times(20_000, 20_000)).toEqual([20_000]);
      expect(await times(-5_000, 10_000)).toEqual([0, 10_000]);
      expect(await times(90_000, 99_000)).toEqual([30_000]);
      expect(await times(-9_000, -5_000)).toEqual([]);
    });

    test("dense rows are found oldest first, whatever their steps", async () => {
      await store.teamActivity.put(activity(0, { stepMs: 30_000 }));
      await store.teamActivity.put(activity(60_000, { stepMs: 60_000 }));
      for (const at of [30_000, 35_000, 65_000]) await store.teamActivity.add(activity(at));
      const found = async (limit: number) =>
        (await store.teamActivity.denserThan(60_000, NOW + 65_000, limit)).map(({ at }) => at - NOW);
      expect(await found(9)).toEqual([0, 30_000, 35_000]);
      expect(await found(2)).toEqual([0, 30_000]);
    });

    test("old rows are removed in steps, except the last of each team", async () => {
      for (const at of [0, 10_000, 20_000, 30_000]) await store.teamActivity.add(activity(at));
      await store.teamActivity.add(activity(5_000, { teamId: "team-2" }));
      expect(await store.teamActivity.removeBefore(NOW + 25_000, 1)).toBe(1);
      expect(await store.teamActivity.removeBefore(NOW + 25_000, 9)).toBe(1);
      expect(await store.teamActivity.removeBefore(NOW + 25_000, 9)).toBe(0);
      expect((await rowsOf("team-1")).map(({ at }) => at - NOW)).toEqual([20_000, 30_000]);
      expect(await rowsOf("team-2")).toHaveLength(1);
      await store.teamActivity.remove(activity(20_000));
      expect(await store.teamActivity.at("team-1", NOW + 20_000)).toBeUndefined();
      expect(await store.teamActivity.at("team-1", NOW + 30_000)).toEqual(activity(30_000));
    });
  });
}
