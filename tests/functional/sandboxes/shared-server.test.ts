/** Test files that share a server see nothing of each other. */
import { describe, expect, test } from "bun:test";
import { Sandbox } from "e2b";
import { leftOn, sharedServer } from "../../support/shared-server.ts";

const NOTHING = { sandboxes: [], snapshots: [], templates: [] };

describe("a file", () => {
  const server = sharedServer();

  test("finds nothing of those before it, and leaves what it likes", async () => {
    expect(await leftOn(server())).toEqual(NOTHING);
    const [running, paused] = await Promise.all([Sandbox.create(server().options), Sandbox.create(server().options)]);
    const { snapshotId } = await running.createSnapshot();
    await paused.pause();
    const { sandboxes, snapshots } = await leftOn(server());
    expect([sandboxes.toSorted(), snapshots]).toEqual([[running.sandboxId, paused.sandboxId].toSorted(), [snapshotId]]);
  });
});

describe("the next one", () => {
  const server = sharedServer();

  test("finds nothing of it on the same server", async () => {
    expect(await leftOn(server())).toEqual(NOTHING);
  });
});
