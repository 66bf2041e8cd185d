/** State changes when the store reports a failure although it has made them, as after a lost connection. */
import { describe, expect, test } from "bun:test";
import { untilTrue } from "../../base/testing/until.ts";
import { Fault } from "../../contract/fault.ts";
import { FakeHost } from "../../host/testing/fake-host.ts";
import { enginesOfControl } from "../../store/testing/engines.ts";
import { STORE_RETRY_MIN_MS } from "../limits.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

/** A fraction of the wait before a retry. */
const STEP_MS = 20;

type Change =
  | "finishPause"
  | "abandonPause"
  | "putOffPause"
  | "finishResume"
  | "abandonResume"
  | "finishSnapshot"
  | "takeDue"
  | "kill"
  | "killRunning"
  | "endRunning"
  | "beginPause"
  | "beginResume"
  | "beginSnapshot";

/** The next change of this kind is made, but its reply is lost. */
function loseReply({ store: { sandboxes } }: ControlFixture, change: Change): void {
  const real = sandboxes[change] as (...args: unknown[]) => Promise<unknown>;
  let isLost = false;
  const lost = async (...args: unknown[]) => {
    const answer = await real(...args);
    if (isLost) return answer;
    isLost = true;
    throw new Error("the connection is lost");
  };
  Object.assign(sandboxes, { [change]: lost });
}

/** Lets time pass until this is done. */
async function done<T>({ clock }: ControlFixture, work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.finally(() => {
    isDone = true;
  });
  await untilTrue(async () => {
    await clock.advance(STEP_MS, async () => undefined);
    return isDone;
  });
  return work;
}

const cannot = async () => {
  throw new Fault(422, "cannot be kept");
};

for (const { title, missing, fresh } of enginesOfControl()) {
  describe.skipIf(missing)(title, () => {
    const opened = async () => ControlFixture.open(new FakeHost(), await fresh());

    // Guards against 500, a resume that never ends, and a checkpoint that stays.
    test("a resume completes once and removes its checkpoint", async () => {
      await using fixture = await opened();
      const id = await fixture.create();
      await fixture.call("POST", `/sandboxes/${id}/pause`);
      loseReply(fixture, "finishResume");
      expect((await done(fixture, fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 10 }))).status).toBe(201);
      await fixture.control.settled();
      expect([fixture.eventsOf(id), fixture.host.checkpoints]).toEqual([["created", "paused", "resumed"], []]);
      await fixture.advance(10_000);
      expect(fixture.host.destroyed).toEqual([id]);
    });

    // Guards against callers that wait on, and a requested kill that does not happen.
    test.each([true, false])(
      "a failed resume leaves the sandbox paused, or killed if that was requested: %p",
      async (isKilled) => {
        await using fixture = await opened();
        const id = await fixture.create();
        await fixture.call("POST", `/sandboxes/${id}/pause`);
        loseReply(fixture, "abandonResume");
        const { begun, finish } = fixture.hold("beforeResume", new Fault(503, "no room"));
        const resuming = fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 10 });
        await begun;
        const killing = isKilled ? fixture.call("DELETE", `/sandboxes/${id}`) : undefined;
        if (isKilled) await fixture.killWanted(id);
        finish();
        expect((await done(fixture, resuming)).status).toBe(503);
        if (killing !== undefined) expect((await done(fixture, killing)).status).toBe(204);
        await fixture.control.settled();
        expect((await fixture.store.sandboxes.byId(id))?.state).toBe(isKilled ? undefined : "paused");
        expect(fixture.eventsOf(id)).toEqual(["created", "paused", ...(isKilled ? ["killed"] : [])]);
      },
    );

    // Guards against 500, and a kill that is neither reported nor done.
    test.each([true, false])("a pause completes, or ends in the requested kill: %p", async (isKilled) => {
      await using fixture = await opened();
      const id = await fixture.create();
      loseReply(fixture, "finishPause");
      const { begun, finish } = fixture.hold("beforePause");
      const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
      await begun;
      const killing = isKilled ? fixture.call("DELETE", `/sandboxes/${id}`) : undefined;
      if (isKilled) await fixture.killWanted(id);
      finish();
      expect((await done(fixture, pausing)).status).toBe(isKilled ? 404 : 204);
      if (killing !== undefined) expect((await done(fixture, killing)).status).toBe(204);
      await fixture.control.settled();
      expect((await fixture.store.sandboxes.byId(id))?.state).toBe(isKilled ? undefined : "paused");
      expect(fixture.eventsOf(id)).toEqual(["created", isKilled ? "killed" : "paused"]);
    });

    // Guards against 500.
    test.each(["resumes", "kills"])(
      "a pause gets its result from the sandbox, which another call %s meanwhile",
      async (what) => {
        await using fixture = await opened();
        const id = await fixture.create();
        loseReply(fixture, "finishPause");
        const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
        await fixture.until(async () => (await fixture.store.sandboxes.byId(id))?.state === "paused");
        const isKilled = what === "kills";
        if (isKilled) await fixture.call("DELETE", `/sandboxes/${id}`);
        else await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 60 });
        expect((await done(fixture, pausing)).status).toBe(isKilled ? 404 : 204);
        expect(fixture.find(id)?.isOpen).toBe(isKilled ? undefined : true);
      },
    );

    // Guards against a sandbox that cannot be reached or paused until the next start.
    test("a failed pause leaves the sandbox reachable", async () => {
      await using fixture = await opened();
      const id = await fixture.create();
      fixture.host.beforePause = cannot;
      loseReply(fixture, "abandonPause");
      expect((await done(fixture, fixture.call("POST", `/sandboxes/${id}/pause`))).status).toBe(422);
      expect(fixture.find(id)?.isOpen).toBe(true);
    });

    // Guards against a sandbox that cannot be reached or paused until the next start.
    test("a failed pause at the end of a timeout leaves the sandbox reachable, and is counted", async () => {
      await using fixture = await opened();
      const id = await fixture.create({ timeout: 1, autoPause: true });
      fixture.host.beforePause = cannot;
      loseReply(fixture, "putOffPause");
      await fixture.clock.advance(1_000, async () => undefined);
      await done(fixture, fixture.control.settled());
      expect([fixture.find(id)?.isOpen, fixture.eventsOf(id)]).toEqual([true, ["created", "warn", "updated"]]);
      expect((await fixture.store.sandboxes.byId(id))?.pauseFailures).toBe(1);
    });

    // Guards against a requested kill that does not happen.
    test.each([true, false])("a snapshot completes, or ends in the requested kill: %p", async (isKilled) => {
      await using fixture = await opened();
      const id = await fixture.create();
      loseReply(fixture, "finishSnapshot");
      const { begun, finish } = fixture.hold("beforeSnapshot");
      const snapshot = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
      await begun;
      const killing = isKilled ? fixture.call("DELETE", `/sandboxes/${id}`) : undefined;
      if (isKilled) await fixture.killWanted(id);
      finish();
      expect((await done(fixture, snapshot)).status).toBe(201);
      if (killing !== undefined) expect((await done(fixture, killing)).status).toBe(204);
      await fixture.control.settled();
      expect((await fixture.store.sandboxes.byId(id))?.state).toBe(isKilled ? undefined : "running");
    });

    test("a sandbox that another call ended meanwhile is ended once", async () => {
      await using fixture = await opened();
      const id = await fixture.create();
      loseReply(fixture, "finishSnapshot");
      const held = Promise.withResolvers<void>();
      fixture.host.beforeDestroy = () => held.promise;
      const snapshot = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
      await fixture.until(
        async () =>
          (await fixture.store.sandboxes.byId(id))?.state === "running" && fixture.host.checkpoints.length > 0,
      );
      const killing = fixture.call("DELETE", `/sandboxes/${id}`);
      await fixture.until(async () => (await fixture.store.sandboxes.byId(id))?.state === "killing");
      await done(fixture, snapshot);
      held.resolve();
      expect((await killing).status).toBe(204);
      await fixture.control.settled();
      expect([fixture.eventsOf(id).filter((event) => event === "killed"), fixture.host.destroyed]).toEqual([
        ["killed"],
        [id],
      ]);
    });

    // Guards against a sandbox that runs on, a checkpoint that stays until the next start, and a kill that finds
    // nothing.
    test.each([true, false])("a kill of a sandbox, paused (%p), removes it once", async (isPaused) => {
      await using fixture = await opened();
      const id = await fixture.create();
      if (isPaused) await fixture.call("POST", `/sandboxes/${id}/pause`);
      loseReply(fixture, isPaused ? "kill" : "killRunning");
      expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(500);
      await done(fixture, fixture.control.settled());
      expect([fixture.host.running, fixture.host.checkpoints]).toEqual([[], []]);
      expect([await fixture.store.sandboxes.byId(id), fixture.eventsOf(id).at(-1)]).toEqual([undefined, "killed"]);
    });

    // Guards against a row that stays until the next start.
    test("a sandbox that the host lost is removed", async () => {
      await using fixture = await opened();
      const id = await fixture.create();
      loseReply(fixture, "endRunning");
      fixture.host.lose(id);
      await done(fixture, fixture.control.settled());
      expect([await fixture.store.sandboxes.byId(id), fixture.eventsOf(id).at(-1)]).toEqual([undefined, "killed"]);
    });

    // Guards against a sandbox whose every operation is rejected until the next start.
    test.each([
      ["beginPause", "pause", "running"],
      ["beginSnapshot", "snapshots", "running"],
      ["beginResume", "connect", "paused"],
    ] as const)("a transition that was refused as it began can begin again: %s", async (change, path, state) => {
      await using fixture = await opened();
      const id = await fixture.create();
      if (state === "paused") await fixture.call("POST", `/sandboxes/${id}/pause`);
      loseReply(fixture, change);
      const call = () => fixture.call("POST", `/sandboxes/${id}/${path}`, path === "connect" ? { timeout: 60 } : {});
      expect((await call()).status).toBe(500);
      await done(fixture, fixture.control.settled());
      expect((await fixture.store.sandboxes.byId(id))?.state).toBe(state);
      expect((await call()).status).toBeLessThan(300);
    });

    // Guards against a sandbox that is listed as running and is not there.
    test("a create whose reply is lost leaves no sandbox", async () => {
      await using fixture = await opened();
      const { transaction } = fixture.store;
      fixture.store.transaction = async (...args) => {
        fixture.store.transaction = transaction;
        await transaction.apply(fixture.store, args);
        throw new Error("the connection is lost");
      };
      expect((await fixture.call("POST", "/sandboxes", { templateID: "base", timeout: 60 })).status).toBe(500);
      await done(fixture, fixture.control.settled());
      expect([(await fixture.call("GET", "/sandboxes")).body, fixture.host.running]).toEqual([[], []]);
    });

    // Guards against a kill that is reported twice.
    test("a kill that another call sees before its caller is reported once", async () => {
      await using fixture = await opened();
      const id = await fixture.create();
      const { killRunning } = fixture.store.sandboxes;
      fixture.store.sandboxes.killRunning = () => Promise.reject(new Error("the connection is lost"));
      expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(500);
      const [made, received, destroyed] = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
      fixture.store.sandboxes.killRunning = async (run) => {
        const killed = await killRunning(run);
        made?.resolve();
        await received?.promise;
        return killed;
      };
      fixture.host.beforeDestroy = async () => destroyed?.promise;
      const killing = fixture.call("DELETE", `/sandboxes/${id}`);
      await made?.promise;
      await fixture.clock.advance(STORE_RETRY_MIN_MS, async () => undefined);
      await fixture.until(() => fixture.host.destroyed.length > 0);
      received?.resolve();
      await fixture.untilIdle();
      destroyed?.resolve();
      expect((await killing).status).toBe(204);
      await fixture.control.settled();
      expect(fixture.eventsOf(id)).toEqual(["created", "killed"]);
    });

    // Guards against a checkpoint that stays until the next start.
    test.each([true, false])(
      "a resume gets its result from the sandbox, which another call ends meanwhile, completely: %p",
      async (isGone) => {
        await using fixture = await opened();
        const id = await fixture.create();
        await fixture.call("POST", `/sandboxes/${id}/pause`);
        loseReply(fixture, "finishResume");
        const destroyed = Promise.withResolvers<void>();
        if (!isGone) fixture.host.beforeDestroy = () => destroyed.promise;
        const resuming = fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 10 });
        await fixture.until(async () => (await fixture.store.sandboxes.byId(id))?.state === "running");
        const killing = fixture.call("DELETE", `/sandboxes/${id}`);
        if (isGone) await killing;
        else await fixture.until(() => fixture.host.destroyed.length > 0);
        expect((await done(fixture, resuming)).status).toBe(409);
        destroyed.resolve();
        expect((await killing).status).toBe(204);
        await fixture.control.settled();
        expect([fixture.host.checkpoints, fixture.eventsOf(id)]).toEqual([[], ["created", "paused", "killed"]]);
      },
    );

    // Guards against giving up the pause that has begun since, which loses the sandbox.
    test("a pause that fails at the moment of expiry is repeated", async () => {
      await using fixture = await opened();
      const id = await fixture.create({ timeout: 1, autoPause: true });
      await fixture.advance(900);
      fixture.host.beforePause = cannot;
      loseReply(fixture, "abandonPause");
      const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
      await fixture.until(
        async () => (await fixture.store.sandboxes.byId(id))?.state === "running" && fixture.clock.timers > 1,
      );
      const { begun, finish } = fixture.hold("beforePause");
      await fixture.clock.advance(100, () => fixture.untilIdle());
      await begun;
      await done(fixture, pausing);
      finish();
      await done(fixture, fixture.control.settled());
      expect((await fixture.store.sandboxes.byId(id))?.state).toBe("paused");
    });

    // Guards against a second pause of the same sandbox at the same time, which loses it.
    test("each sandbox is paused once when some replies to expiries are lost", async () => {
      await using fixture = await opened();
      const [first, second] = [
        await fixture.create({ timeout: 1, autoPause: true }),
        await fixture.create({ autoPause: true }),
      ];
      const [begun, held] = [new Set<string>(), Promise.withResolvers<void>()];
      fixture.host.beforePause = (id) => {
        begun.add(id);
        return held.promise;
      };
      await fixture.clock.advance(1_000, async () => undefined);
      await fixture.until(() => begun.has(first));
      loseReply(fixture, "takeDue");
      await fixture.call("POST", `/sandboxes/${second}/timeout`, { timeout: 0 });
      await fixture.clock.advance(0, async () => undefined);
      await fixture.until(() => fixture.logLines.some((line) => line.includes("expiry could not reach the store")));
      await fixture.clock.advance(STORE_RETRY_MIN_MS, async () => undefined);
      await fixture.until(() => begun.has(second));
      await fixture.untilIdle();
      held.resolve();
      await done(fixture, fixture.control.settled());
      expect(fixture.host.collisions).toEqual([]);
      for (const id of [first, second]) expect((await fixture.store.sandboxes.byId(id))?.state).toBe("paused");
    });

    // Guards against one sandbox that runs on, and another that can be neither paused nor resumed until the next start.
    test("expiries end or pause each sandbox once", async () => {
      await using fixture = await opened();
      const [ended, paused] = [
        await fixture.create({ timeout: 1 }),
        await fixture.create({ timeout: 1, autoPause: true }),
      ];
      loseReply(fixture, "takeDue");
      await fixture.advance(1_000);
      await fixture.advance(STORE_RETRY_MIN_MS);
      expect([fixture.host.destroyed, fixture.eventsOf(ended)]).toEqual([[ended], ["created", "killed"]]);
      expect((await fixture.store.sandboxes.byId(paused))?.state).toBe("paused");
      expect(fixture.eventsOf(paused)).toEqual(["created", "paused"]);
    });
  });
}
