/** The team's limit of running sandboxes: which sandboxes count, and what happens to those above the limit. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { callsOfTeam, errorsIn, sandboxesIn } from "../testing/team-calls.ts";

let fixture: ControlFixture;

const { limit, create, pause, resume, connect, wake, fork, running, paused, free } = callsOfTeam(() => fixture);

beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("a team with a limit", () => {
  test.each(["/sandboxes", "/v2/sandboxes"])(
    "%s above the limit: 429 at once, with the limit and the remedy",
    async (path) => {
      await limit(2);
      expect([(await create(path)).status, (await create(path)).status]).toEqual([201, 201]);
      const reply = await create(path);
      expect(reply.status).toBe(429);
      expect(reply.body.message).toContain("this team already runs 2 sandboxes, its limit; kill or pause one");
      // Clients that find this header wait and try again, which would only make the refusal late.
      expect(reply.headers.has("retry-after")).toBe(false);
      expect(fixture.host.running).toHaveLength(2);
      expect(fixture.events.filter(({ event }) => event === "created")).toHaveLength(2);
    },
  );

  test("does not limit another team", async () => {
    await limit(1);
    const theirs = await fixture.anotherTeam("others");
    for (let nth = 0; nth < 3; nth++) {
      const reply = await fixture.call("POST", "/sandboxes", { templateID: "base" }, { "X-API-Key": theirs });
      expect(reply.status).toBe(201);
    }
    expect(await free()).toBe(1);
  });

  test("may get a lower limit than it uses, and a higher one again, from the next call on", async () => {
    const [id = ""] = await running(3);
    await limit(2);
    expect((await create()).status).toBe(429);
    expect((await connect(id)).status).toBe(200);
    await limit(4);
    expect(await free()).toBe(1);
    await limit(undefined);
    expect((await create()).status).toBe(201);
  });

  test("gets a lease back for every killed, paused or expired sandbox", async () => {
    await limit(3);
    const [killed = "", stopped = ""] = await running(2);
    await fixture.create({ timeout: 10 });
    expect(await free()).toBe(0);
    await fixture.call("DELETE", `/sandboxes/${killed}`);
    expect(await free()).toBe(1);
    await pause(stopped);
    expect(await free()).toBe(1);
    await fixture.advance(10_000);
    expect(await free()).toBe(1);
  });

  test("does not count sandboxes that are being ended, however often that fails", async () => {
    fixture.host.beforeDestroy = async () => {
      throw new Error("busy");
    };
    await limit(1);
    const [id = ""] = await running(1);
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(500);
    expect((await fixture.store.sandboxes.inState("killing")).map((row) => row.id)).toEqual([id]);
    expect(await free()).toBe(1);
  });

  test("counts a killed sandbox whose processes still run", async () => {
    let runsOn = true;
    fixture.host.beforeDestroy = async () => {
      if (runsOn) throw new Fault(503, "something in it still runs");
    };
    await limit(1);
    const [id = ""] = await running(1);
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(503);
    expect((await create()).status).toBe(429);
    runsOn = false;
    await fixture.advance(1_000);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(await free()).toBe(1);
  });

  test("counts a sandbox until it is paused", async () => {
    await limit(1);
    const [id = ""] = await running(1);
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause(id);
    await begun;
    expect((await create()).status).toBe(429);
    finish();
    await pausing;
    expect(await free()).toBe(1);
  });

  test("counts a sandbox until its automatic pause is complete", async () => {
    await limit(1);
    await fixture.create({ timeout: 10, autoPause: true });
    const { begun, finish } = fixture.hold("beforePause");
    const passed = fixture.advance(10_000);
    await begun;
    expect((await create()).status).toBe(429);
    finish();
    await passed;
    expect(await free()).toBe(1);
  });

  test("counts a sandbox during a snapshot once", async () => {
    await limit(2);
    const [id = ""] = await running(1);
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
    await begun;
    expect(await free()).toBe(1);
    finish();
    expect((await making).status).toBe(201);
  });

  test("counts a start and the row that it has just written as one", async () => {
    await limit(2);
    const { transaction } = fixture.store;
    const second = Promise.withResolvers<number>();
    fixture.store.transaction = async (work) => {
      fixture.store.transaction = transaction;
      const written = await transaction(work);
      second.resolve((await create()).status);
      return written;
    };
    expect([(await create()).status, await second.promise]).toEqual([201, 201]);
  });

  test("counts a start that ends while the rows are being read", async () => {
    await limit(1);
    const [begun, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    fixture.host.beforeCreate = () => {
      begun.resolve();
      return held.promise;
    };
    const first = create();
    await begun.promise;
    const { holdingQuota } = fixture.store.sandboxes;
    fixture.store.sandboxes.holdingQuota = async (...given) => {
      const before = await holdingQuota(...given);
      held.resolve();
      await first;
      return before;
    };
    expect([(await create()).status, (await first).status]).toEqual([429, 201]);
  });

  test("counts again after a restart", async () => {
    await running(2);
    await limit(3);
    await fixture.restart();
    expect(await free()).toBe(1);
  });

  describe("with none free", () => {
    let awake: string;
    let asleep: string;
    beforeEach(async () => {
      [asleep = ""] = await paused(1);
      [awake = ""] = await running(1);
      await limit(1);
    });

    test.each([
      ["resume", () => resume(asleep)],
      ["v2 connect", () => connect(asleep)],
      ["v1 connect", () => fixture.call("POST", `/sandboxes/${asleep}/connect`, { timeout: 5 })],
    ])("%s of a paused sandbox is 429 and leaves it paused", async (_, act) => {
      const reply = await act();
      expect([reply.status, reply.body.message]).toEqual([
        429,
        expect.stringContaining("already runs 1 sandbox, its limit"),
      ]);
      expect(reply.headers.has("retry-after")).toBe(false);
      expect((await fixture.call("GET", `/sandboxes/${asleep}`)).body.state).toBe("paused");
      await fixture.call("DELETE", `/sandboxes/${awake}`);
      expect((await act()).status).toBe(201);
    });

    test("traffic does not wake a sandbox until a lease is free", async () => {
      expect(await wake(asleep)).toEqual({ refused: "limit-reached" });
      expect((await fixture.call("GET", `/sandboxes/${asleep}`)).body.state).toBe("paused");
      await pause(awake);
      expect(await wake(asleep)).toHaveProperty("woken");
    });

    test("two requests for the same sandbox get the same refusal", async () => {
      const [reply, woken] = await Promise.all([connect(asleep), wake(asleep)]);
      expect([reply.status, woken]).toEqual([429, { refused: "limit-reached" }]);
    });

    test("connect to a running sandbox needs no lease", async () => {
      expect((await connect(awake)).status).toBe(200);
      expect((await fixture.call("POST", `/sandboxes/${awake}/connect`, { timeout: 5 })).status).toBe(200);
    });

    test("a fork rejects all copies, and the sandbox is not frozen", async () => {
      await limit(3);
      await running(2);
      let captures = 0;
      fixture.host.beforeSnapshot = async () => void captures++;
      const { status, entries } = await fork(awake, 2);
      expect([status, errorsIn(entries).map(({ code }) => code), captures]).toEqual([201, [429, 429], 0]);
    });
  });

  test("a fork makes the copies that fit and rejects the others", async () => {
    await limit(5);
    const [id = "", other = ""] = await running(3);
    const { status, entries } = await fork(id, 4);
    expect([status, entries.length]).toEqual([201, 4]);
    expect(sandboxesIn(entries)).toHaveLength(2);
    expect(errorsIn(entries)).toEqual(Array(2).fill({ code: 429, message: expect.stringContaining("5 sandboxes") }));
    expect(fixture.host.running).toHaveLength(5);
    await fixture.call("DELETE", `/sandboxes/${other}`);
    expect(await free()).toBe(1);
  });

  test("a fork into as many as the limit, or more, can never fit: 400", async () => {
    await limit(3);
    const [id = ""] = await running(1);
    const reply = await fixture.call("POST", `/sandboxes/${id}/fork`, { count: 3 });
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("3 sandboxes at once")]);
    expect((await fork(id, 2)).entries.map((entry) => "sandbox" in entry)).toEqual([true, true]);
  });

  describe("gets back the lease of", () => {
    const failure = async () => {
      throw new Fault(503, "no room");
    };

    test("a create that fails, also when its row cannot be written", async () => {
      await limit(1);
      fixture.host.beforeCreate = failure;
      expect((await create()).status).toBe(503);
      fixture.host.beforeCreate = async () => undefined;
      const { transaction } = fixture.store;
      fixture.store.transaction = async () => {
        throw new Fault(500, "disk full");
      };
      expect((await create()).status).toBe(500);
      fixture.store.transaction = transaction;
      expect(await free()).toBe(1);
    });

    test("a sandbox that dies before it is handed out", async () => {
      await limit(1);
      const { transaction } = fixture.store;
      fixture.store.transaction = async (work) => {
        fixture.store.transaction = transaction;
        fixture.host.lose(fixture.host.running[0] ?? "");
        return transaction(work);
      };
      expect((await create()).status).toBe(503);
      expect(await free()).toBe(1);
    });

    test("a resume that fails or is interrupted by a kill", async () => {
      const [first = "", second = ""] = await paused(2);
      await limit(1);
      fixture.host.beforeResume = failure;
      expect((await resume(first)).status).toBe(503);
      const { begun, finish } = fixture.hold("beforeResume");
      const resuming = resume(second);
      await begun;
      expect((await create()).status).toBe(429);
      const killing = fixture.call("DELETE", `/sandboxes/${second}`);
      await fixture.killWanted(second);
      finish();
      expect([(await resuming).status, (await killing).status]).toEqual([409, 204]);
      expect(await free()).toBe(1);
    });

    test("a fork whose checkpoint, or some of whose copies, cannot be made", async () => {
      await limit(6);
      const [id = ""] = await running(1);
      fixture.host.beforeSnapshot = failure;
      expect((await fork(id, 5)).status).toBe(503);
      fixture.host.beforeSnapshot = async () => undefined;
      let copies = 0;
      fixture.host.beforeCreate = async () => {
        if (++copies % 2 === 0) await failure();
      };
      expect(sandboxesIn((await fork(id, 5)).entries)).toHaveLength(3);
      fixture.host.beforeCreate = async () => undefined;
      expect(await free()).toBe(2);
    });

    test("a failed read of the store", async () => {
      await limit(1);
      const { holdingQuota } = fixture.store.sandboxes;
      fixture.store.sandboxes.holdingQuota = async () => {
        throw new Fault(503, "the store is away");
      };
      expect((await create()).status).toBe(503);
      fixture.store.sandboxes.holdingQuota = holdingQuota;
      expect(await free()).toBe(1);
    });
  });
});
