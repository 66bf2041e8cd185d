/** When many sandboxes end at once, a few end at a time, and a slow one blocks no other. */
import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../base/log.ts";
import { ProcessesRemain } from "../system/cgroup/removal.ts";
import type { CleanupParts } from "./cleanup.ts";
import { Endings, REAPS_AT_ONCE } from "./endings.ts";
import { Slots } from "./network/slots.ts";

const silent: Log = { write: () => undefined };

/** Endings that last as long as `remove`; `free` gives a slot back. */
function endingsWith(remove: (id: string) => Promise<void>, free?: (slot: number) => Promise<void>): Endings {
  const sandboxesFolder = mkdtempSync(join(tmpdir(), "endings-"));
  const parts = {
    data: { sandboxesFolder, cgroup: `sandlot/none-${process.pid}` },
    runtimes: { remove },
    disks: { releaseMounts: async () => undefined },
    network: { unplug: async () => undefined, free },
  };
  return new Endings(parts as unknown as CleanupParts, 1_000, silent);
}

test("many sandboxes end a few at a time, each once", async () => {
  const ids = Array.from({ length: 5 * REAPS_AT_ONCE }, (_, at) => `i${at}`);
  const ended: string[] = [];
  let [now, most] = [0, 0];
  const endings = endingsWith(async (id) => {
    most = Math.max(most, ++now);
    await Bun.sleep(1);
    now--;
    ended.push(id);
  });
  await Promise.all(ids.map((id) => endings.endById(id)));
  expect(ended.toSorted()).toEqual(ids.toSorted());
  expect(most).toBe(REAPS_AT_ONCE);
});

test("slow and failing ends free their places", async () => {
  const never = Promise.withResolvers<void>();
  const endings = endingsWith(async (id) => {
    if (id.startsWith("stuck")) await never.promise;
    if (id.startsWith("failed")) throw new Error("no");
  });
  const stuck = Array.from({ length: REAPS_AT_ONCE }, (_, at) => endings.endById(`stuck${at}`));
  const failed = Array.from({ length: REAPS_AT_ONCE }, (_, at) => endings.endById(`failed${at}`));
  const outcomes = await Promise.allSettled(failed);
  expect(outcomes.map(({ status }) => status)).toEqual(failed.map(() => "rejected"));
  await endings.endById("quick");
  never.resolve();
  await Promise.all(stuck);
});

// A resume that finds no folder begins, and clears away after itself if it fails.
test("a sandbox that resumes while its previous slot is returned is ended like any other", async () => {
  const [freed, freeing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let isStuck = true;
  const given: number[] = [];
  const endings = endingsWith(
    async () => {
      if (isStuck) throw new ProcessesRemain([1], 0);
    },
    async (slot) => {
      given.push(slot);
      freeing.resolve();
      if (slot === 1) await freed.promise;
    },
  );
  await expect(endings.end({ id: "i1", slot: 1 })).rejects.toThrow("has not ended yet");
  await expect(endings.end({ id: "i1", slot: 1 })).rejects.toThrow("has not ended yet");
  isStuck = false;
  await freeing.promise;
  await endings.end({ id: "i1", slot: 2 });
  freed.resolve();
  await endings.close();
  expect(given).toEqual([1, 2]);
});

// Guards against a slot that goes to a new sandbox, whose interface and rules are removed when the previous one is
// gone.
test("the slot of a found sandbox that does not end is not reused until it is gone", async () => {
  const sandboxesFolder = mkdtempSync(join(tmpdir(), "endings-"));
  mkdirSync(join(sandboxesFolder, "i1"));
  const slots = new Slots();
  const before = new Slots().take();
  writeFileSync(join(sandboxesFolder, "i1", "record.json"), JSON.stringify({ id: "i1", slot: before }));
  let isStuck = true;
  const given = Promise.withResolvers<number>();
  const parts = {
    data: { sandboxesFolder, cgroup: `sandlot/none-${process.pid}` },
    runtimes: {
      list: async () => [],
      remove: async () => {
        if (isStuck) throw new ProcessesRemain([1], 0);
      },
    },
    disks: { releaseMounts: async () => undefined, list: async () => [] },
    network: {
      adopt: (slot: number) => slots.adopt(slot),
      unplug: async () => undefined,
      removeInterfaces: async () => undefined,
      async free(slot: number) {
        slots.free(slot);
        given.resolve(slot);
      },
    },
  };
  const endings = new Endings(parts as unknown as CleanupParts, 1_000, silent);
  await endings.reap(new Map());
  expect(slots.take()).not.toBe(before);
  isStuck = false;
  expect(await given.promise).toBe(before);
  await endings.close();
});
