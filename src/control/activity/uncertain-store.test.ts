/** Events when the store reports a failure although it has written, as after a lost connection. */
import { describe, expect, test } from "bun:test";
import { Background } from "../../base/background.ts";
import { systemClock } from "../../base/clock.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
import type { Ids } from "../ids.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { SandboxEventRecord } from "./sandbox-event-record.ts";
import type { ActivityChange } from "./team-activity.ts";

const CREATED = "sandbox.lifecycle.created";
const all = { sandboxId: undefined, types: [], since: 0, ascending: true, offset: 0, limit: 100 };

for (const { title, missing, fresh } of enginesOfControl()) {
  describe.skipIf(missing)(title, () => {
    // Guards against a lost reply that stops the events and webhooks of all teams.
    test("a retried event is recorded once, reported once, and delays nothing", async () => {
      await using fixture = await ControlFixture.open(new FakeHost(), await fresh());
      const hook = { name: "mine", url: "https://hooks.example/in", events: [CREATED], signatureSecret: "s3cret" };
      expect((await fixture.call("POST", "/events/webhooks", hook)).status).toBe(201);
      const { transaction } = fixture.store;
      const recorded = async () => {
        const events = await fixture.store.sandboxEvents.list({ ...all, teamId: fixture.firstRun.teamId });
        return events.map(({ sandboxId }) => sandboxId);
      };
      const failing = async (...args: Parameters<typeof transaction>) => {
        const before = (await recorded()).length;
        const done = await transaction.apply(fixture.store, args);
        if ((await recorded()).length > before) throw new Error("the connection is lost");
        return done;
      };
      fixture.store.transaction = failing as typeof transaction;
      const first = await fixture.create({ timeout: 60 });
      fixture.store.transaction = transaction;
      const second = await fixture.create({ timeout: 60 });
      await fixture.idleClock.advance(5_000, () => fixture.control.settled());
      expect(await recorded()).toEqual([first, second]);
      expect(fixture.posted).toHaveLength(2);
    });

    // Guards against counting the first change again behind the second, which leaves a running sandbox too many.
    test("a change without an event is not counted again after a later event", async () => {
      await using fixture = await ControlFixture.open(new FakeHost(), await fresh());
      const sandbox =
        (await fixture.store.sandboxes.byId(await fixture.create({ timeout: 60 }))) ?? expect.unreachable();
      const counted: ActivityChange[][] = [];
      const log = { write: () => undefined };
      const record = new SandboxEventRecord({
        store: fixture.store,
        clock: systemClock,
        idleClock: systemClock,
        ids: { uuid: () => crypto.randomUUID() } as Ids,
        log,
        background: new Background(log),
        onRecorded: () => undefined,
        recordActivity: async (_tables, changes) => void counted.push([...changes]),
      });
      const change = (before: number): ActivityChange => ({
        teamId: sandbox.teamId,
        at: 1,
        before,
        after: before + 1,
        isStart: false,
      });
      const { transaction } = fixture.store;
      const failing = async (...args: Parameters<typeof transaction>) => {
        await transaction.apply(fixture.store, args);
        throw new Error("the connection is lost");
      };
      fixture.store.transaction = failing as typeof transaction;
      record.noteChange(change(0));
      record.note("updated", sandbox, undefined, change(1));
      await expect(record.flush()).rejects.toThrow("the connection is lost");
      fixture.store.transaction = transaction;
      record.noteChange(change(2));
      await record.close();
      expect(counted).toEqual([[change(0), change(1)], [change(2)]]);
    });
  });
}
