/** Volumes whose create fails while the store is unavailable. */
import { expect, test } from "bun:test";
import { ControlFixture } from "../testing/control-fixture.ts";
import { outageOf } from "../testing/store-outage.ts";

// Guards against a name that stays taken, and content that stays, until the next start.
test.each([true, false])(
  "a volume whose create failed is removed when the store is back; ready: %p",
  async (isReady) => {
    await using fixture = await ControlFixture.open();
    const { volumes } = fixture.store;
    const { markReady } = volumes;
    const marking = outageOf(volumes, "markReady");
    const refuse = volumes.markReady;
    if (isReady) {
      volumes.markReady = async (id) => {
        await markReady(id);
        return await refuse(id);
      };
    }
    const deleting = outageOf(volumes, "markDeleted");
    expect((await fixture.call("POST", "/volumes", { name: "one" })).status).toBe(503);
    expect(deleting.refused).toBeGreaterThan(0);
    marking.end();
    deleting.end();
    await fixture.passBy(60_000);
    expect(fixture.host.volumes.size).toBe(0);
    expect((await fixture.call("POST", "/volumes", { name: "one" })).status).toBe(201);
  },
);
