/** The status of a row is defined once in code and once in SQL; this test compares both for every possible row. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Sandbox, SandboxState } from "../../store/sandboxes.ts";
import { openStore, type Store } from "../../store/store.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
import { aSandbox, NOW, template } from "../../store/testing/rows.ts";
import { shownState, statusOf } from "./sandbox-status.ts";

const STATES: Record<SandboxState, true> = {
  running: true,
  pausing: true,
  paused: true,
  resuming: true,
  snapshotting: true,
  killing: true,
};

function everyRow(): Sandbox[] {
  const truths = [false, true];
  const rows: Sandbox[] = [];
  for (const state of Object.keys(STATES) as SandboxState[])
    for (const killWanted of truths)
      for (const autoPause of truths)
        for (const endAt of [NOW - 1, NOW, NOW + 1]) {
          const id = `i${rows.length}`;
          rows.push(aSandbox(id, { state, killWanted, autoPause, endAt, tokens: [id] }));
        }
  return rows;
}

for (const { title, missing, fresh } of enginesOfControl()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;
    const rows = everyRow();
    const idsOf = (fits: (row: Sandbox) => boolean) => rows.filter(fits).map(({ id }) => id);
    const filter = { teamId: "team-1", now: NOW, startedAfter: 0, templateId: undefined };

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
      await store.people.addTeam({ id: "team-1", name: "t", slug: "t", limits: {}, createdAt: NOW });
      await store.templates.add(template("template1"));
      for (const row of rows) await store.sandboxes.add(row);
    });
    afterEach(() => store.close());

    test.each([
      { running: true, paused: false },
      { running: false, paused: true },
      { running: true, paused: true },
      { running: false, paused: false },
    ])("lists and counts in SQL match the code: %p", async ({ running, paused }) => {
      const expected = idsOf((row) => {
        const shown = shownState(row, NOW);
        return (running && shown === "running") || (paused && shown === "paused");
      });
      for (const order of ["asc", "desc"] as const) {
        const listed = await store.sandboxes.list({ ...filter, running, paused }, order, undefined, rows.length);
        expect(listed.map(({ id }) => id).toSorted()).toEqual(expected.toSorted());
      }
      expect(await store.sandboxes.count({ ...filter, running, paused })).toBe(expected.length);
    });

    test("signed links consider visible sandboxes, running ones first", async () => {
      const secured = (await store.sandboxes.secured(NOW, rows.length)).map(({ id }) => id);
      const running = idsOf((row) => shownState(row, NOW) === "running");
      expect(secured.slice(0, running.length).toSorted()).toEqual(running.toSorted());
      expect(secured.toSorted()).toEqual(idsOf((row) => shownState(row, NOW) !== undefined).toSorted());
    });

    test("running and transitional sandboxes count against the team's limit", async () => {
      const expected = idsOf((row) => ["running", "in-transition"].includes(statusOf(row, NOW)));
      expect((await store.sandboxes.holdingQuota("team-1", NOW)).toSorted()).toEqual(expected.toSorted());
    });
  });
}
