/** What ends a build early, and which builds wait for each other. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { tarOf } from "../../base/testing/raw-tar.ts";
import { BUILD_WITHOUT_UPLOAD_MS } from "../limits.ts";
import { HOUSEKEEPING_EVERY_MS } from "../templates/housekeeping.ts";
import { BuildCalls } from "../testing/build-calls.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { NEW_IMAGE_KEPT_MS } from "./builds.ts";
import { BUILD_START_WITHIN_MS } from "./unstarted-builds.ts";

let fixture: ControlFixture;
let calls: BuildCalls;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  calls = new BuildCalls(fixture);
});
afterEach(() => fixture[Symbol.asyncDispose]());

describe("a build is cancelled by", () => {
  test("a newer start of its template, under any tag", async () => {
    const held = calls.hold();
    const first = await calls.begin("web:v1");
    await held.begun(first);
    const second = await calls.begin("web:v2");
    await held.begun(second);
    expect(await calls.status(first)).toMatchObject({
      status: "error",
      reason: { message: expect.stringMatching(/a newer build/) },
    });
    await fixture.until(() => fixture.host.building.length === 1);
    expect(fixture.host.building).toEqual([second.buildID]);
    held.end(second);
    expect((await calls.ended(second)).status).toBe("ready");
    expect((await calls.status(first)).status).toBe("error");
  });

  test("a newer start before it reaches the host", async () => {
    fixture.buildLimits = { atOnce: 1 };
    await fixture.restart();
    const held = calls.hold();
    const other = await calls.begin("other");
    await held.begun(other);
    const [first, second] = [await calls.begin("web"), await calls.begin("web")];
    held.end(other);
    await held.begun(second);
    expect(held.requests.map(({ id }) => id)).toEqual([other.buildID, second.buildID]);
    expect(await calls.status(first)).toMatchObject({
      status: "error",
      reason: { message: expect.stringMatching(/a newer build/) },
    });
  });

  test("the deletion of its template, which also drops its result", async () => {
    const held = calls.hold();
    const build = await calls.begin("web");
    await held.begun(build);
    expect((await fixture.call("DELETE", "/templates/web")).status).toBe(204);
    await fixture.until(() => fixture.host.building.length === 0);
    expect((await fixture.store.builds.byId(build.buildID))?.status).toBe("error");
    expect((await fixture.call("GET", `/templates/${build.templateID}/builds/${build.buildID}/status`)).status).toBe(
      404,
    );
  });

  test("nothing, once it is ready", async () => {
    const build = await calls.begin("web");
    await calls.ended(build);
    await calls.begin("web");
    expect((await calls.status(build)).status).toBe("ready");
  });

  test("a newer start, even if the host has just finished it; its checkpoint is removed", async () => {
    const held = calls.hold();
    const build = await calls.begin("web");
    await held.begun(build);
    // The host has finished just before it hears of the cancel.
    const cancelled = spyOn(fixture.host, "cancelBuild").mockResolvedValue();
    await calls.begin("web");
    const made = { image: "made", defaultUser: "user", defaultWorkdir: "/", envVars: {}, checkpoint: "unwanted" };
    held.end(build, { isReady: true, ...made });
    await fixture.until(() => fixture.host.checkpoints.length === 0 && !fixture.host.building.includes(build.buildID));
    cancelled.mockRestore();
    expect((await calls.status(build)).status).toBe("error");
  });
});

describe("build slots", () => {
  test("are two; other builds wait, and their logs say so", async () => {
    const held = calls.hold();
    const builds = [await calls.begin("a"), await calls.begin("b"), await calls.begin("c")] as const;
    await held.begun(builds[1]);
    expect(fixture.host.building).toEqual([builds[0].buildID, builds[1].buildID]);
    await fixture.until(async () => (await calls.status(builds[2])).logEntries.length > 0);
    expect(await calls.status(builds[2])).toMatchObject({
      status: "building",
      logEntries: [{ message: expect.stringMatching(/waiting for a place: this server does 2 builds at once/) }],
    });
    held.end(builds[0]);
    await held.begun(builds[2]);
  });

  test("are never all used by one team if there is another, unless the operator allows it", async () => {
    const held = calls.hold();
    const other = await fixture.anotherTeam("other");
    const mine = [await calls.begin("a"), await calls.begin("b"), await calls.begin("c")] as const;
    const theirs = await calls.begin("a", {}, other);
    await held.begun(mine[0]);
    await held.begun(theirs);
    expect(fixture.host.building).toEqual([mine[0].buildID, theirs.buildID]);
    const reported = "waiting for a place: this server does 2 builds at once, 1 of one team";
    await fixture.until(async () =>
      (await calls.status(mine[1])).logEntries.some(({ message }) => message === reported),
    );
    held.end(theirs);
    await calls.ended(theirs, other);
    expect(fixture.host.building).toEqual([mine[0].buildID]);
    await fixture.store.people.setLimits(fixture.firstRun.teamId, { builds: 2 });
    const allowed = await calls.begin("d");
    await held.begun(allowed);
  });

  test("go to another team before a team's third build", async () => {
    fixture.buildLimits = { atOnce: 3 };
    await fixture.restart();
    const held = calls.hold();
    const [second, third] = [await fixture.anotherTeam("second"), await fixture.anotherTeam("third")];
    const mine = [await calls.begin("a"), await calls.begin("b"), await calls.begin("c")] as const;
    await held.begun(await calls.begin("a", {}, second));
    const theirs = await calls.begin("a", {}, third);
    await held.begun(mine[1]);
    held.end(mine[0]);
    await held.begun(theirs);
    expect(fixture.host.building).not.toContain(mine[2].buildID);
  });

  test("in the queue are bounded per team, started or not", async () => {
    fixture.buildLimits = { atOnce: 1, waitingPerTeam: 3 };
    await fixture.restart();
    const held = calls.hold();
    await held.begun(await calls.begin("a"));
    await calls.begin("b");
    await calls.request("c");
    const d = await calls.request("d");
    const refused = await fixture.call("POST", "/v3/templates", { name: "e" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, null]);
    expect(refused.body.message).toContain("this team has 3 builds that wait");
    expect(await fixture.store.templates.byAlias("default", "e")).toBeUndefined();
    expect((await fixture.call("POST", "/v3/templates", { name: "d" })).status).toBe(202);
    expect((await calls.status(d)).status).toBe("error");
    const other = await fixture.anotherTeam("other");
    await calls.request("e", {}, other);
  });

  test("are free again after a rejected start", async () => {
    fixture.buildLimits = { waitingPerTeam: 1 };
    await fixture.restart();
    for (const name of ["a", "b", "c"]) {
      expect((await calls.start(await calls.request(name), { steps: [{ type: "EXPOSE" }] })).status).toBe(400);
    }
  });

  test("are released after 15 minutes by builds without a start or an upload", async () => {
    fixture.buildLimits = { waitingPerTeam: 1 };
    await fixture.restart();
    const abandoned = await calls.request("a");
    expect((await fixture.call("POST", "/v3/templates", { name: "b" })).status).toBe(429);
    await fixture.advance(BUILD_WITHOUT_UPLOAD_MS - 1);
    expect((await fixture.call("POST", "/v3/templates", { name: "b" })).status).toBe(429);
    await fixture.advance(1);
    await calls.request("b");
    expect(await calls.status(abandoned)).toMatchObject({
      status: "error",
      reason: { message: "no file was uploaded for it and it was not started within 15 minutes; request a new build" },
    });
  });

  test("are released without a further request", async () => {
    const abandoned = await calls.request("a");
    await fixture.advance(BUILD_WITHOUT_UPLOAD_MS);
    await fixture.idleClock.advance(HOUSEKEEPING_EVERY_MS, () => fixture.control.settled());
    expect((await calls.status(abandoned)).status).toBe("error");
  });

  test("are kept during uploads, also over a restart, for at most two hours", async () => {
    const build = await calls.request("a");
    const waits = async () => {
      await fixture.idleClock.advance(HOUSEKEEPING_EVERY_MS, () => fixture.control.settled());
      return (await calls.status(build)).status === "waiting";
    };
    const link = await fixture.call("GET", `/templates/${build.templateID}/files/${"ab".repeat(32)}`);
    const upload = new TransformStream<Uint8Array, Uint8Array>();
    const request = new Request(String((link.body as unknown as { url: string }).url), {
      method: "PUT",
      body: upload.readable,
    });
    const received = fixture.control.handle(request);
    await fixture.advance(BUILD_WITHOUT_UPLOAD_MS);
    expect(await waits()).toBe(true);
    const writer = upload.writable.getWriter();
    await writer.write(tarOf({ "a.txt": "content" }));
    await writer.close();
    expect((await received).status).toBe(204);
    await fixture.advance(BUILD_WITHOUT_UPLOAD_MS - 1);
    expect(await waits()).toBe(true);
    await fixture.restart();
    await fixture.advance(BUILD_WITHOUT_UPLOAD_MS - 1);
    expect(await waits()).toBe(true);
    for (let left = BUILD_START_WITHIN_MS; left > 0; left -= BUILD_WITHOUT_UPLOAD_MS / 2) {
      await fixture.call("GET", `/templates/${build.templateID}/files/${"ab".repeat(32)}`);
      await fixture.advance(BUILD_WITHOUT_UPLOAD_MS / 2);
    }
    expect(await waits()).toBe(false);
  });
});

describe("after the server has ended", () => {
  test("in a crash, started builds have failed, and others can still be started", async () => {
    const [building, waiting] = [await calls.request("a"), await calls.request("b")];
    await fixture.store.builds.begin(building.buildID, null, NOW);
    await fixture.restart();
    expect(await calls.status(building)).toMatchObject({
      status: "error",
      reason: { message: expect.stringMatching(/was restarted/) },
    });
    const reported = fixture.logLines.filter((line) => line.includes("cut off"));
    expect(reported).toEqual([expect.stringContaining(building.buildID)]);
    expect((await calls.start(waiting)).status).toBe(202);
    expect((await calls.ended(waiting)).status).toBe("ready");
  });

  test("in order, running and queued builds have failed", async () => {
    fixture.buildLimits = { atOnce: 1 };
    await fixture.restart();
    const held = calls.hold();
    const builds = [await calls.begin("a"), await calls.begin("b")] as const;
    await held.begun(builds[0]);
    await fixture.restart();
    expect(fixture.host.building).toEqual([]);
    for (const build of builds) {
      expect(await calls.status(build)).toMatchObject({
        status: "error",
        reason: { message: expect.stringMatching(/was stopped/) },
      });
    }
  });
});

test("an image is kept from the end of its build, also by a collection that read the store earlier", async () => {
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  const images = spyOn(fixture.store.buildsInUse, "images");
  const requested = Promise.withResolvers<string[]>();
  images.mockReturnValueOnce(requested.promise);
  await fixture.idleClock.advance(HOUSEKEEPING_EVERY_MS, async () => undefined);
  await fixture.until(() => images.mock.calls.length > 0);
  held.end(build);
  await calls.ended(build);
  requested.resolve(["base"]);
  await fixture.control.settled();
  expect(fixture.host.keptImages).toEqual(["base", `image-${build.buildID}`]);
  await fixture.advance(NEW_IMAGE_KEPT_MS);
  await fixture.call("DELETE", "/templates/web");
  await fixture.control.settled();
  expect(fixture.host.keptImages).toEqual(["base"]);
});
