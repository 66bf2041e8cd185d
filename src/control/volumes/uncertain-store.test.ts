/** Volumes when the store reports a failure although it has written, as after a lost connection. */
import { describe, expect, test } from "bun:test";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { bothEngines } from "../../store/testing/engines.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

/** The next transaction is made, but its reply is lost. */
function loseReply({ store }: ControlFixture): void {
  const { transaction } = store;
  store.transaction = async (...args) => {
    store.transaction = transaction;
    await transaction.apply(store, args);
    throw new Error("the connection is lost");
  };
}

for (const { title, missing, fresh } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    // Guards against a name that stays taken until the next start.
    test("a volume whose creation failed can be created again", async () => {
      await using f = await ControlFixture.open(new FakeHost(), await fresh());
      loseReply(f);
      expect((await f.call("POST", "/volumes", { name: "one" })).status).toBe(500);
      await f.control.settled();
      expect((await f.call("POST", "/volumes", { name: "one" })).status).toBe(201);
    });

    // Guards against content that stays until the next start.
    test("a deleted volume is removed", async () => {
      await using f = await ControlFixture.open(new FakeHost(), await fresh());
      const { volumeID } = (await f.call("POST", "/volumes", { name: "one" })).body as unknown as { volumeID: string };
      loseReply(f);
      expect((await f.call("DELETE", `/volumes/${volumeID}`)).status).toBe(500);
      await f.control.settled();
      expect(f.host.volumes.size).toBe(0);
    });

    test("a volume that could not be deleted stays", async () => {
      await using f = await ControlFixture.open(new FakeHost(), await fresh());
      const { volumeID } = (await f.call("POST", "/volumes", { name: "one" })).body as unknown as { volumeID: string };
      const { transaction } = f.store;
      f.store.transaction = () => Promise.reject(new Error("the store is away"));
      expect((await f.call("DELETE", `/volumes/${volumeID}`)).status).toBe(500);
      f.store.transaction = transaction;
      await f.control.settled();
      expect([...f.host.volumes.keys()]).toEqual([volumeID]);
      expect((await f.call("GET", "/volumes")).body as unknown).toEqual([{ volumeID, name: "one" }]);
    });
  });
}
