/** The log of a build: ordered, paged, bounded, and complete once the build ends. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { ACTIVITY_SWEEP_MS } from "../activity/activity.ts";
import { BuildCalls, type Requested } from "../testing/build-calls.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let calls: BuildCalls;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  calls = new BuildCalls(fixture);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const entry = (nth: number, level: "debug" | "info" = "info") =>
  ({ at: NOW + nth, level, message: `line ${nth}`, step: "1" }) as const;

/** A finished build with so many log lines, every tenth of them an info. */
async function spoken(lines: number, tenth: "all" | "tenth" = "all"): Promise<Requested> {
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  const output = Array.from({ length: lines }, (_, nth) =>
    entry(nth, tenth === "all" || nth % 10 === 0 ? "info" : "debug"),
  );
  for (let at = 0; at < lines; at += 33) fixture.host.logBuild(build.buildID, output.slice(at, at + 33));
  held.end(build);
  await calls.ended(build);
  return build;
}

/** As the SDK reads it: from the last line on, until a page is empty. */
async function allOf(build: Requested, query = ""): Promise<string[]> {
  const lines: string[] = [];
  for (;;) {
    const { logEntries } = await calls.status(build, `?logsOffset=${lines.length}${query}`);
    if (logEntries.length === 0) return lines;
    lines.push(...logEntries.map(({ message }) => message));
  }
}

test("is read page by page, each entry once, and ends with an empty page", async () => {
  const build = await spoken(250);
  expect((await calls.status(build)).logEntries).toHaveLength(100);
  expect(await allOf(build)).toEqual(Array.from({ length: 250 }, (_, nth) => `line ${nth}`));
  expect((await calls.status(build, "?limit=0")).logEntries).toEqual([]);
});

test("is filtered by level, with offsets among the matching entries", async () => {
  const build = await spoken(250, "tenth");
  expect(await allOf(build, "&level=info&limit=10")).toEqual(
    Array.from({ length: 25 }, (_, nth) => `line ${nth * 10}`),
  );
});

test("of a finished build is complete, even if a writer is slow", async () => {
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  for (let nth = 0; nth < 50; nth++) fixture.host.logBuild(build.buildID, [entry(nth)]);
  held.end(build);
  await fixture.until(async () => (await fixture.store.builds.byId(build.buildID))?.status === "ready");
  expect((await fixture.store.builds.byId(build.buildID))?.logCount).toBe(50);
});

test("is read by time in either direction", async () => {
  const { templateID, buildID } = await spoken(20);
  const logs = async (query: string) => {
    const reply = await fixture.call("GET", `/templates/${templateID}/builds/${buildID}/logs${query}`);
    const { logs } = reply.body as unknown as { logs: { message: string; level: string; step: string }[] };
    return logs.map(({ message }) => Number(message.slice(5)));
  };
  expect(await logs("")).toEqual(Array.from({ length: 20 }, (_, nth) => nth));
  expect(await logs(`?cursor=${NOW + 15}&limit=3`)).toEqual([15, 16, 17]);
  expect(await logs(`?cursor=${NOW + 15}&limit=3&direction=backward`)).toEqual([15, 14, 13]);
  expect(await logs("?direction=backward&limit=1&source=temporary")).toEqual([19]);
  await fixture.advance(8 * 24 * 3_600_000);
  expect(await logs("")).toEqual([]);
});

test("is bounded, and has a note when the bound is reached", async () => {
  fixture.buildLimits = { logMaxBytes: 10_000 };
  await fixture.restart();
  const held = calls.hold();
  const build = await calls.begin("web");
  await held.begun(build);
  const long = { ...entry(0), message: "x".repeat(1_000) };
  for (let times = 0; times < 5; times++)
    fixture.host.logBuild(
      build.buildID,
      Array.from({ length: 10 }, () => long),
    );
  held.end(build);
  const { logEntries } = await calls.ended(build);
  expect(logEntries).toHaveLength(10);
  expect(logEntries.at(-1)).toMatchObject({ level: "warn", message: expect.stringContaining("at most 10000 bytes") });
});

test("of another or an unknown build is rejected", async () => {
  const build = await spoken(1);
  fixture.host.logBuild("5a4d1075-ba5e-4000-8000-00000000000f", [entry(1)]);
  fixture.host.logBuild(build.buildID, [entry(2)]);
  expect(await allOf(build)).toEqual(["line 0"]);
});

test("is removed after a week, and the build is still there", async () => {
  const old = await spoken(3);
  await fixture.advance(8 * 24 * 3_600_000);
  const young = await spoken(3);
  await fixture.idleClock.advance(ACTIVITY_SWEEP_MS, () => fixture.control.settled());
  await fixture.control.settled();
  expect([await allOf(old), await allOf(young)]).toEqual([[], ["line 0", "line 1", "line 2"]]);
  expect(await calls.status(old)).toMatchObject({ status: "ready" });
});
