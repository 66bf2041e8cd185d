/** Builds that start or end while the store is unavailable. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { UncertainOutcome } from "../../contract/fault.ts";
import { BuildCalls } from "../testing/build-calls.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { outageOf, settledOf } from "../testing/store-outage.ts";

let fixture: ControlFixture;
let calls: BuildCalls;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  calls = new BuildCalls(fixture);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const made = { image: "made", defaultUser: "user", defaultWorkdir: "/", envVars: {}, checkpoint: "kept" };
const lost = () => new UncertainOutcome("the connection is lost", 2, undefined);

/** The next transaction is made, but its reply is lost. */
function loseReply(): { isLost: boolean } {
  const { transaction } = fixture.store;
  const reply = { isLost: false };
  fixture.store.transaction = async (...args) => {
    fixture.store.transaction = transaction;
    await transaction.apply(fixture.store, args);
    reply.isLost = true;
    throw lost();
  };
  return reply;
}

/** Lets time pass until no build works. */
async function over({ buildID }: { buildID: string }): Promise<string | undefined> {
  await fixture.until(async () => {
    await fixture.clock.advance(5_000, () => fixture.untilIdle());
    return (await fixture.store.builds.byId(buildID))?.status !== "building";
  });
  await settledOf(fixture);
  return (await fixture.store.builds.byId(buildID))?.status;
}

// Guards against builds that are "building" until the next start.
test.each([true, false])("the result of a build is recorded when the store is back; ready: %p", async (isReady) => {
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  const outage = outageOf(isReady ? fixture.store : fixture.store.builds, isReady ? "transaction" : "fail");
  held.end(build, isReady ? { isReady, ...made } : { isReady, message: "no", step: "base" });
  await fixture.until(() => outage.refused > 0);
  await fixture.clock.advance(60_000, () => fixture.untilIdle());
  outage.end();
  expect(await over(build)).toBe(isReady ? "ready" : "error");
});

test("a build that begins during an outage is done when the store is back", async () => {
  fixture.buildLimits = { atOnce: 1 };
  await fixture.restart();
  const held = calls.hold();
  const [first, second] = [await calls.begin("first"), await calls.begin("second")];
  await held.begun(first);
  const { byId } = fixture.store.builds;
  let refused = 0;
  fixture.store.builds.byId = async (id) => {
    if (id !== second.buildID) return await byId(id);
    refused += 1;
    throw lost();
  };
  held.end(first);
  await fixture.until(() => refused > 0);
  fixture.store.builds.byId = byId;
  await fixture.clock.advance(5_000, () => fixture.untilIdle());
  await held.begun(second);
  held.end(second);
  expect(await over(second)).toBe("ready");
});

// Guards against a template whose checkpoint is gone.
test("a result whose reply was lost keeps its checkpoint", async () => {
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  const reply = loseReply();
  held.end(build, { isReady: true, ...made });
  await fixture.until(() => reply.isLost);
  expect(await over(build)).toBe("ready");
  await fixture.until(async () => {
    await fixture.clock.advance(5_000, () => fixture.untilIdle());
    return fixture.logLines.some((line) => line.includes("template build finished"));
  });
  await settledOf(fixture);
  expect(fixture.host.checkpoints).toContain("kept");
});

test("a build whose start got no reply is over when the store is back", async () => {
  const build = await calls.request("web");
  loseReply();
  expect((await calls.start(build)).status).toBe(503);
  expect(await over(build)).toBe("error");
});
