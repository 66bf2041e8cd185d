/** Volumes when the store reports a failure although it has written, as after a lost connection. */
import { describe, expect, test } from "bun:test";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
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

for (const { title, missing, fresh } of enginesOfControl()) {
  describe.skipIf(missing)(title, () => {
    // Guards against a name that stays taken until the next start.
    test("a volume whose creation failed can be created again", async () => {
      await using fixture = await ControlFixture.open(new FakeHost(), await fresh());
      loseReply(fixture);
      expect((await fixture.call("POST", "/volumes", { name: "one" })).status).toBe(500);
      await fixture.control.settled();
      expect((await fixture.call("POST", "/volumes", { name: "one" })).status).toBe(201);
    });

    // Guards against content that stays until the next start.
    test("a deleted volume is removed", async () => {
      await using fixture = await ControlFixture.open(new FakeHost(), await fresh());
      const { volumeID } = (await fixture.call("POST", "/volumes", { name: "one" })).body as unknown as {
        volumeID: string;
      };
      loseReply(fixture);
      expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).status).toBe(500);
      await fixture.control.settled();
      expect(fixture.host.volumes.size).toBe(0);
    });

    test("a volume that could not be deleted stays", async () => {
      await using fixture = await ControlFixture.open(new FakeHost(), await fresh());
      const { volumeID } = (await fixture.call("POST", "/volumes", { name: "one" })).body as unknown as {
        volumeID: string;
      };
      const { transaction } = fixture.store;
      fixture.store.transaction = () => Promise.reject(new Error("the store is away"));
      expect((await fixture.call("DELETE", `/volumes/${volumeID}`)).status).toBe(500);
      fixture.store.transaction = transaction;
      await fixture.control.settled();
      expect([...fixture.host.volumes.keys()]).toEqual([volumeID]);
      expect((await fixture.call("GET", "/volumes")).body as unknown).toEqual([{ volumeID, name: "one" }]);
    });
  });
}
