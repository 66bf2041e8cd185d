/** The store on a completely full disk still records changes of sandboxes. */
import { describe, expect, test } from "bun:test";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../src/base/system-code.ts";
import { LONG } from "../../src/base/testing/long.ts";
import { prepareStoreFiles } from "../../src/images/disk/store-files.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { aSandbox, NOW, template } from "../../src/store/testing/rows.ts";
import { newDataFolder } from "../support/server.ts";
import { SmallFilesystem } from "./small-filesystem.ts";

const DISK_BYTES = 256 * 1024 ** 2;
const CHANGES = LONG ? 500 : 150;
/** Each change reaches the disk, which may have much else to do. */
const CHANGES_MS = 600_000;

function fill(folder: string): void {
  const file = openSync(join(folder, "filler"), "w");
  for (let bytes = 1024 * 1024; bytes >= 1; bytes >>= 1) {
    try {
      while (writeSync(file, Buffer.alloc(bytes, 7)) === bytes);
    } catch (error) {
      if (systemCode(error) !== "ENOSPC") throw error;
    }
  }
  closeSync(file);
}

async function changeState({ sandboxes }: Store): Promise<void> {
  const row = await sandboxes.byId("i1");
  if (row === undefined) throw new Error("it is gone");
  const pausing = await sandboxes.beginPause(row, { checkpoint: "c", memory: true, now: NOW });
  expect(pausing?.state).toBe("pausing");
  expect((await sandboxes.abandonPause(pausing ?? row))?.state).toBe("running");
}

// Guards against a missing reserve on both; without files that are written in place, btrfs ends this very process.
describe.each(["ext4", "btrfs"] as const)("%s", (type) => {
  const goesOn = async () => {
    const folder = newDataFolder(`full-store-${type}`);
    const disk = await SmallFilesystem.make(folder, type, DISK_BYTES);
    const storeFile = join(folder, "store.sqlite");
    await prepareStoreFiles(storeFile);
    const store = await openStore(`sqlite://${storeFile}`, NOW);
    try {
      await store.people.addTeam({ id: "team-1", name: "a", slug: "a", limits: {}, createdAt: NOW });
      await store.templates.add(template("template1"));
      await store.sandboxes.add(aSandbox("i1"));
      await store.makeRoom();
      fill(folder);
      for (let nth = 0; nth < CHANGES; nth++) await changeState(store);
    } finally {
      await store.close();
      await disk.remove();
    }
  };
  test("changes of a sandbox's state are still recorded", goesOn, CHANGES_MS);
});
