/** The bound of the memory sizes of all sandboxes, on both engines. A sandbox of base has 1024 MB. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
import { ControlFixture, type Reply } from "../testing/control-fixture.ts";
import { callsOfTeam, errorsIn, sandboxesIn } from "../testing/team-calls.ts";

let fixture: ControlFixture;
const { limit, create, pause, resume, connect, wake, fork, running, paused, free } = callsOfTeam(() => fixture);
const counter = (replies: Reply[]) => Object.groupBy(replies, ({ status }) => status);

describe.each(enginesOfControl())("on $title", ({ missing, fresh }) => {
  describe.skipIf(missing)("a machine that may promise 4.5 GiB", () => {
    beforeEach(async () => {
      fixture = await ControlFixture.open(new FakeHost(), await fresh());
      fixture.memoryBound = { factor: 1.5, machineMB: 3072 };
      await fixture.restart();
    });
    afterEach(() => fixture[Symbol.asyncDispose]());

    test("refuses the fifth sandbox with the setting, the sum and the bound", async () => {
      await running(4);
      const reply = await create();
      expect([reply.status, reply.body.error_code]).toEqual([503, "sandbox_capacity_unavailable"]);
      expect(reply.body.message).toStartWith(
        "Failed to place sandbox: SANDLOT_MEMORY_OVERCOMMIT=1.5 lets all sandboxes have 4608 MB (the machine has " +
          "3072 MB); running ones have 4096 MB, and this one needs 1024 MB",
      );
      expect(fixture.host.running).toHaveLength(4);
    });

    test("counts the sandboxes of all teams together", async () => {
      const theirs = await fixture.anotherTeam("others");
      const createTheirs = () => fixture.call("POST", "/sandboxes", { templateID: "base" }, { "X-API-Key": theirs });
      for (let nth = 0; nth < 3; nth++) expect((await createTheirs()).status).toBe(201);
      expect(await free()).toBe(1);
      expect((await createTheirs()).status).toBe(503);
    });

    test("never starts one too many for 30 concurrent creates", async () => {
      let most = 0;
      fixture.host.beforeCreate = async () => {
        most = Math.max(most, fixture.host.running.length);
        await Bun.sleep(1);
      };
      const replies = counter(await Promise.all(Array.from({ length: 30 }, () => create())));
      expect([replies[201]?.length, replies[503]?.length]).toEqual([4, 26]);
      expect(most).toBeLessThanOrEqual(4);
      expect(fixture.host.running).toHaveLength(4);
    });

    test("refuses no create that fits, however many begin at once", async () => {
      fixture.host.beforeCreate = () => Bun.sleep(1);
      const replies = counter(await Promise.all(Array.from({ length: 4 }, () => create())));
      expect(replies[201]).toHaveLength(4);
    });

    test("refuses resumes, connects and wakes; the sandbox stays paused", async () => {
      const [id = ""] = await paused(1);
      await running(4);
      expect([(await resume(id)).status, (await connect(id)).status]).toEqual([503, 503]);
      expect(await wake(id)).toEqual({ refused: "unavailable" });
      expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
      const [other] = await fixture.store.sandboxes.inState("running");
      await pause(other?.id ?? "");
      expect((await resume(id)).status).toBe(201);
    });

    test("forks as often as there is memory, and names the setting for the rest", async () => {
      const [id = ""] = await running(2);
      const { entries } = await fork(id, 3);
      expect(sandboxesIn(entries)).toHaveLength(2);
      expect(errorsIn(entries)).toEqual([
        expect.objectContaining({ code: 503, message: expect.stringContaining("SANDLOT_MEMORY_OVERCOMMIT=1.5") }),
      ]);
    });

    test("reports the limit of the team where that is lower", async () => {
      await limit(2);
      expect(await free()).toBe(2);
      expect((await create()).status).toBe(429);
    });

    test("counts a sandbox until it is paused, and no paused one", async () => {
      const [id = ""] = await running(4);
      const { begun, finish } = fixture.hold("beforePause");
      const pausing = pause(id);
      await begun;
      expect((await create()).status).toBe(503);
      finish();
      await pausing;
      expect(await free()).toBe(1);
    });

    test("counts a killed sandbox whose processes still run, and no longer", async () => {
      let runsOn = true;
      fixture.host.beforeDestroy = async () => {
        if (runsOn) throw new Fault(503, "something in it still runs");
      };
      const [id = ""] = await running(4);
      expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(503);
      expect((await create()).status).toBe(503);
      runsOn = false;
      await fixture.advance(1_000);
      expect(await free()).toBe(1);
    });

    test("counts no failed start", async () => {
      fixture.host.beforeCreate = async () => {
        throw new Fault(500, "planned failure");
      };
      for (let nth = 0; nth < 6; nth++) expect((await create()).status).toBe(500);
      fixture.host.beforeCreate = async () => undefined;
      expect(await free()).toBe(4);
    });

    test("counts the same after a restart of the server", async () => {
      await running(3);
      await fixture.restart();
      expect(await free()).toBe(1);
    });
  });
});
