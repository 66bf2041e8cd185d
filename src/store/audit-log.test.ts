/** The audit log on both engines. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { AuditEntry } from "./audit-log.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { NOW } from "./testing/rows.ts";

function entry(id: string, changes: Partial<AuditEntry> = {}): AuditEntry {
  const about = { subject: "work", teamId: "team-1", action: "POST /sandboxes", object: null };
  return {
    id,
    at: NOW,
    ...about,
    actor: "key",
    actorId: "k1",
    address: null,
    status: 201,
    requestId: null,
    ...changes,
  };
}

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    let store: Store;

    beforeEach(async () => {
      store = await openStore(await fresh(), NOW);
    });

    afterEach(() => store.close());

    const ids = async (filter = {}, after?: { at: number; id: string }) =>
      (await store.auditLog.list(filter, after, 100)).map(({ id }) => id);

    test("entries come newest first, by filter and from a position on", async () => {
      const root = entry("d", { actor: "root", actorId: null, teamId: null, object: "o", at: NOW + 2 });
      for (const each of [entry("a"), entry("b"), entry("c", { at: NOW + 1, actorId: "k2" }), root]) {
        await store.auditLog.add(each);
      }
      expect(await store.auditLog.list({}, undefined, 1)).toEqual([root]);
      expect(await ids()).toEqual(["d", "c", "b", "a"]);
      expect(await ids({}, { at: NOW + 1, id: "c" })).toEqual(["b", "a"]);
      expect(await ids({ teamId: "team-1", actorId: "k1" })).toEqual(["b", "a"]);
      expect(await ids({ object: "o" })).toEqual(["d"]);
      expect(await ids({ from: NOW + 1, to: NOW + 1 })).toEqual(["c"]);
    });

    test("the newest of a team and subject are kept, and the oldest of all go by age", async () => {
      for (const subject of ["work", "access"]) {
        for (const nth of [1, 2, 3]) await store.auditLog.add(entry(`${subject}${nth}`, { subject, at: NOW + nth }));
      }
      await store.auditLog.add(entry("other", { teamId: "team-2" }));
      await store.auditLog.add(entry("none", { teamId: null }));
      await store.auditLog.removeBeyond({ teamId: "team-1", subject: "work" }, 2);
      expect(await ids()).toEqual(["work3", "access3", "work2", "access2", "access1", "other", "none"]);
      await store.auditLog.removeBeyond({ teamId: null, subject: "work" }, 0);
      expect(await store.auditLog.removeBefore(NOW + 2, 1)).toBe(1);
      expect(await ids()).toEqual(["work3", "access3", "work2", "access2", "access1"]);
    });

    test("state of the server is replaced by name", async () => {
      expect(await store.serverState.of("node")).toBeUndefined();
      await store.serverState.set("node", "draining", NOW);
      await store.serverState.set("node", "ready", NOW + 1);
      expect(await store.serverState.of("node")).toEqual({ value: "ready", changedAt: NOW + 1 });
    });
  });
}
