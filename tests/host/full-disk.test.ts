/** The store on a disk that is full to its last byte: what has happened to sandboxes is still written down. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../src/host/command.ts";
import { aSandbox, NOW, template } from "../../src/store/rows-fixture.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { newDataFolder } from "../server.ts";

const CHANGES = 500;

const disk = newDataFolder("full-store");
let store: Store;
beforeAll(async () => {
  mkdirSync(disk, { recursive: true });
  await run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", disk]);
  store = await openStore(`sqlite://${disk}/store.sqlite`, NOW);
  await store.people.addTeam({ id: "team-1", name: "a", slug: "a", limits: {}, createdAt: NOW });
  await store.templates.add(template("template1"));
  await store.sandboxes.add(aSandbox("i1"));
});
afterAll(async () => {
  await store.close();
  await run(["umount", "--lazy", disk]);
});

function fill(): void {
  const file = openSync(join(disk, "filler"), "w");
  for (let bytes = 1024 * 1024; bytes >= 1; bytes >>= 1) {
    try {
      while (writeSync(file, Buffer.alloc(bytes)) === bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
  closeSync(file);
}

// Seen to fail without the room.
test("a sandbox goes on changing its state", async () => {
  await store.makeRoom();
  fill();
  const { sandboxes } = store;
  for (let nth = 0; nth < CHANGES; nth++) {
    const row = await sandboxes.byId("i1");
    if (row === undefined) throw new Error("it is gone");
    const to = { checkpoint: `checkpoint-${nth}`, memory: true, now: NOW };
    expect((await sandboxes.beginPause(row, to))?.state).toBe("pausing");
    expect((await sandboxes.abandonPause(row))?.state).toBe("running");
  }
});
