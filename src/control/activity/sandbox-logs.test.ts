/** Logs of sandboxes through the management API. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { ACTIVITY_KEPT_MS } from "../../contract/limits.ts";
import type { LogLine } from "../../contract/sandbox-log.ts";
import { LOG_LINES_PER_SANDBOX_MAX } from "../limits.ts";
import { ControlFixture, NOW } from "../testing/control-fixture.ts";
import { ACTIVITY_SWEEP_MS } from "./activity.ts";
import { LOG_BYTES_PER_SANDBOX_MAX, LOG_TEAM_BURST_MAX_BYTES, LOG_WAITING_MAX_LINES } from "./sandbox-logs.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

interface Entry {
  timestamp: string;
  level: string;
  message: string;
  fields: Record<string, string>;
}

async function entries(id: string, query = "", headers: Record<string, string> = {}): Promise<Entry[]> {
  const reply = await fixture.call("GET", `/v2/sandboxes/${id}/logs${query}`, undefined, headers);
  expect(reply.status).toBe(200);
  return (reply.body as unknown as { logs: Entry[] }).logs;
}

async function firstGeneration(id: string, query = "") {
  const reply = await fixture.call("GET", `/sandboxes/${id}/logs${query}`);
  expect(reply.status).toBe(200);
  return reply.body as unknown as { logs: { timestamp: string; line: string }[]; logEntries: Entry[] };
}

const texts = (logs: Entry[]) => logs.map(({ message }) => message);
const line = (message: string, at = NOW, level: LogLine["level"] = "info"): LogLine => ({
  at,
  level,
  message,
  fields: { logger: "process" },
});

/** As the host does: asks for its position, then sends lines. */
async function say(id: string, lines: LogLine[], position = "j:1"): Promise<boolean> {
  await fixture.host.askLog(id);
  return fixture.host.say(id, lines, position);
}

describe("a log has", () => {
  test("the reasons of failed connections from the host, except for an ended sandbox", async () => {
    const id = await fixture.create();
    const message = "egress proxy p.test: has no address";
    for (const each of [id, "i0"]) fixture.host.listener({ kind: "trouble", id: each, message });
    await fixture.control.settled();
    expect((await entries(id)).filter(({ level }) => level === "warn")).toMatchObject([{ message }]);
  });

  test("lifecycle events and the guest's lines, oldest first in API v1", async () => {
    const id = await fixture.create({ metadata: { secret: "of-metadata" }, envVars: { A: "of-variables" } });
    fixture.clock.advance(10, async () => undefined);
    await say(id, [line("Process started", NOW + 5), line("Process ended", NOW + 6)]);
    await fixture.call("DELETE", `/sandboxes/${id}`);
    const { logs, logEntries } = await firstGeneration(id);
    expect(texts(logEntries).slice(0, 3)).toEqual(["Sandbox created", "Process started", "Process ended"]);
    expect(texts(logEntries)[3]).toStartWith("Sandbox killed");
    expect(logEntries[0]?.fields).toMatchObject({ logger: "sandbox", event_type: "sandbox.lifecycle.created" });
    expect(logs.map(({ timestamp }) => timestamp)).toEqual(logEntries.map(({ timestamp }) => timestamp));
    const parsed = logs.map((log) => JSON.parse(log.line));
    expect(parsed[1]).toEqual({ level: "info", message: "Process started", logger: "process" });
    expect(JSON.stringify(logs)).not.toMatch(/of-metadata|of-variables/);
  });

  test("nothing for another team or an unknown sandbox", async () => {
    const id = await fixture.create();
    await say(id, [line("private")]);
    const other = { "X-API-Key": await fixture.anotherTeam("other") };
    expect(await entries(id, "", other)).toEqual([]);
    expect(await entries("inever00000000000000")).toEqual([]);
    expect((await fixture.call("GET", "/v2/sandboxes/NOT-AN-ID/logs")).status).toBe(400);
  });

  test("the reason of a postponed automatic pause", async () => {
    fixture.host.beforePause = async () => {
      throw new Fault(422, "process 7 (io_uring) cannot be kept");
    };
    const id = await fixture.create({ timeout: 30, autoPause: true });
    await fixture.advance(30_000);
    const warnings = await entries(id, "?level=warn");
    expect(texts(warnings).join()).toContain("process 7 (io_uring) cannot be kept");
    expect(warnings[0]?.fields.logger).toBe("sandbox");
  });

  test("its lines after the sandbox's end and a restart, for seven days", async () => {
    const id = await fixture.create({ timeout: 30 });
    await fixture.advance(30_000);
    await fixture.restart();
    expect(texts(await entries(id, "?direction=forward"))).toHaveLength(2);
    await fixture.advance(ACTIVITY_KEPT_MS);
    expect(texts(await entries(id))).toHaveLength(1);
    await fixture.advance(30_001);
    expect(await entries(id)).toEqual([]);
    await fixture.idleClock.advance(ACTIVITY_SWEEP_MS, () => fixture.control.settled());
    expect(await fixture.store.sandboxLogs.extentOf(id)).toEqual({ lines: 0, bytes: 0, lastAt: 0 });
  });
});

describe("a log query", () => {
  test("returns newest first unless forward, from a cursor, up to a limit", async () => {
    const id = await fixture.create();
    await fixture.advance(100);
    await say(
      id,
      [1, 2, 3, 4].map((nth) => line(`l${nth}`, NOW + nth * 10)),
    );
    expect(texts(await entries(id, "?limit=2"))).toEqual(["l4", "l3"]);
    expect(texts(await entries(id, `?cursor=${NOW + 20}`))).toEqual(["l2", "l1", "Sandbox created"]);
    expect(texts(await entries(id, `?cursor=${NOW + 20}&direction=forward`))).toEqual(["l2", "l3", "l4"]);
    expect(texts(await entries(id, "?direction=forward&limit=2"))).toEqual(["Sandbox created", "l1"]);
    expect(await entries(id, "?limit=0")).toEqual([]);
    expect(texts((await firstGeneration(id, `?start=${NOW + 31}`)).logEntries)).toEqual(["l4"]);
    expect((await firstGeneration(id, "?limit=1")).logs).toHaveLength(1);
  });

  test("accepts any 64-bit time", async () => {
    const id = await fixture.create();
    const farthest = "9223372036854775807";
    expect(await entries(id, `?cursor=${farthest}`)).toEqual([]);
    expect(await entries(id, `?cursor=${farthest}&direction=forward`)).toEqual([]);
    expect((await firstGeneration(id, `?start=${farthest}`)).logs).toEqual([]);
    const metrics = await fixture.call("GET", `/sandboxes/${id}/metrics?start=${farthest}&end=${farthest}`);
    expect([metrics.status, metrics.body]).toEqual([200, expect.arrayContaining([])]);
  });

  test("filters by level and by a literal part of the message", async () => {
    const id = await fixture.create();
    await say(id, [line("100% a", NOW, "debug"), line("lower", NOW, "warn"), line("Lower", NOW, "error")]);
    expect(texts(await entries(id, "?level=warn&direction=forward"))).toEqual(["lower", "Lower"]);
    expect(texts(await entries(id, "?search=%25%20"))).toEqual(["100% a"]);
    expect(texts(await entries(id, "?search=Low&direction=forward"))).toEqual(["Lower"]);
  });

  test.each([
    "limit=1001",
    "limit=-1",
    "direction=up",
    "level=fatal",
    `search=${"x".repeat(257)}`,
    "cursor=-1",
    "cursor=x",
  ])("refuses %s", async (query) => {
    expect((await fixture.call("GET", `/v2/sandboxes/i1/logs?${query}`)).status).toBe(400);
  });

  test.each(["start=-1", "limit=-1", "limit=1.5"])("of API v1 refuses %s", async (query) => {
    expect((await fixture.call("GET", `/sandboxes/i1/logs?${query}`)).status).toBe(400);
  });
});

describe("a reader that follows", () => {
  test("misses nothing, whatever the guest's clock shows", async () => {
    const id = await fixture.create();
    const seen: string[] = [];
    let start = 0;
    const poll = async () => {
      const { logs } = await firstGeneration(id, `?start=${start}`);
      seen.push(...logs.map((log) => JSON.parse(log.line).message));
      const last = logs.at(-1);
      if (last !== undefined) start = Date.parse(last.timestamp) + 1;
    };
    await poll();
    for (let nth = 0; nth < 20; nth++) {
      // Now, long ago, and all in the same millisecond.
      await say(id, [line(`a${nth}`), line(`b${nth}`, NOW - 3_600_000), line(`c${nth}`)], `j:${nth}`);
      await poll();
    }
    expect(seen.toSorted()).toEqual(
      [
        "Sandbox created",
        ...["a", "b", "c"].flatMap((letter) => Array.from({ length: 20 }, (_, n) => `${letter}${n}`)),
      ].toSorted(),
    );
    expect(new Set(seen).size).toBe(seen.length);
  });
});

describe("towards the host", () => {
  test("the position is that of the newest lines taken, also after a restart", async () => {
    const id = await fixture.create();
    expect(await fixture.host.askLog(id)).toBeNull();
    expect(await say(id, [line("a")], "journal:7")).toBe(true);
    expect(await fixture.host.askLog(id)).toBe("journal:7");
    expect(await fixture.host.say(id, [line("own")], null)).toBe(true);
    await fixture.restart();
    expect(await fixture.host.askLog(id)).toBe("journal:7");
  });

  test("lines of a sandbox that is not recorded yet are not taken", async () => {
    expect(await fixture.host.say("inew", [line("early")], "j:1")).toBe(false);
    expect(await fixture.host.askLog("inew")).toBeUndefined();
  });

  test("last lines that arrive after the end are kept", async () => {
    const id = await fixture.create();
    await fixture.host.askLog(id);
    await fixture.call("DELETE", `/sandboxes/${id}`);
    expect(await fixture.host.say(id, [line("last words")], "j:2")).toBe(true);
    expect(texts(await entries(id))).toContain("last words");
  });

  test("a flood is dropped and counted, and a store that fails loses nothing of the rest", async () => {
    const id = await fixture.create();
    await fixture.host.askLog(id);
    const many = Array.from({ length: LOG_WAITING_MAX_LINES + 10 }, (_, nth) => line(`l${nth}`));
    expect(await fixture.host.say(id, many, "j:9")).toBe(true);
    expect(await fixture.host.say(id, [line("more")], "j:10")).toBe(false);
    expect(texts(await entries(id, "?limit=1"))[0]).toMatch(/^11 lines were dropped/);
    expect(await fixture.host.say(id, [line("more")], "j:10")).toBe(true);
  });

  test("a store that fails for a moment loses nothing", async () => {
    const id = await fixture.create();
    await say(id, [line("a")]);
    const { transaction } = fixture.store;
    fixture.store.transaction = () => Promise.reject(new Error("the disk is full"));
    await fixture.idleClock.advance(1_000, () => fixture.control.settled());
    expect(fixture.logLines.join("\n")).toContain("logs not written");
    fixture.store.transaction = transaction;
    await say(id, [line("b")], "j:2");
    await fixture.idleClock.advance(2_000, () => fixture.control.settled());
    expect(texts(await entries(id, "?direction=forward"))).toEqual(["Sandbox created", "a", "b"]);
  });

  // Guards against a log that stops for good, with all others that were written with it.
  test("a store that fails after writing continues with the next lines", async () => {
    const id = await fixture.create();
    await say(id, [line("a")]);
    const { transaction } = fixture.store;
    fixture.store.transaction = async (...args) => {
      await transaction.apply(fixture.store, args);
      throw new Error("the connection is lost");
    };
    await fixture.idleClock.advance(1_000, () => fixture.control.settled());
    expect(fixture.logLines.join("\n")).toContain("logs not written");
    fixture.store.transaction = transaction;
    await say(id, [line("b")], "j:2");
    await fixture.idleClock.advance(5_000, () => fixture.control.settled());
    await fixture.advance(10);
    // At least once.
    expect(new Set(texts(await entries(id, "?direction=forward")))).toEqual(new Set(["Sandbox created", "a", "b"]));
  });

  // Guards against lines behind an overlong log that are written again and rejected for good.
  test("a store that cannot trim a long log writes nothing twice", async () => {
    const [long, short] = [await fixture.create(), await fixture.create()];
    const many = Array.from({ length: 4000 }, () => line("x"));
    for (let lines = many.length; lines <= LOG_LINES_PER_SANDBOX_MAX; lines += many.length) {
      await say(long, many, `j:${lines}`);
      await fixture.idleClock.advance(1_000, () => fixture.control.settled());
    }
    await say(long, [...many, line("y")], "k:1");
    await say(short, [line("a")]);
    using failing = spyOn(fixture.store.sandboxLogs, "removeOldest").mockRejectedValue(new Error("the store is away"));
    await fixture.idleClock.advance(1_000, () => fixture.control.settled());
    expect(failing).toHaveBeenCalled();
    failing.mockRestore();
    await say(short, [line("b")], "j:2");
    await fixture.idleClock.advance(5_000, () => fixture.control.settled());
    await fixture.advance(10);
    expect(texts(await entries(short, "?direction=forward"))).toEqual(["Sandbox created", "a", "b"]);
  });

  test("a team that floods is throttled, and others are not", async () => {
    const ids = [await fixture.create(), await fixture.create(), await fixture.create(), await fixture.create()];
    const other = { "X-API-Key": await fixture.anotherTeam("other") };
    const theirs = (await fixture.call("POST", "/sandboxes", { templateID: "base", timeout: 60 }, other)).body
      .sandboxID;
    const piece = Array.from({ length: 1000 }, () => line("x".repeat(1000)));
    const pour = async (id: string) => {
      await fixture.idleClock.advance(1_000, () => fixture.control.settled());
      return say(id, piece);
    };
    const taken: boolean[] = [];
    for (let nth = 0; nth < 24; nth++) taken.push(await pour(ids[nth % 4] ?? ""));
    const bytes = taken.filter(Boolean).length * Buffer.byteLength(JSON.stringify(piece));
    expect(taken.at(-1)).toBe(false);
    expect(bytes).toBeLessThanOrEqual(LOG_TEAM_BURST_MAX_BYTES);
    expect(bytes).toBeGreaterThan(LOG_TEAM_BURST_MAX_BYTES / 2);
    expect(await pour(theirs)).toBe(true);
    await fixture.advance(10_000);
    expect(await pour(ids[0] ?? "")).toBe(true);
  });

  test("after a close no lines are taken: the guest keeps them for the next start", async () => {
    const id = await fixture.create();
    const before = fixture.host.listener;
    await fixture.host.askLog(id);
    await fixture.restart();
    expect(await fixture.host.say(id, [line("late")], "j:5", before)).toBe(false);
  });

  test("a log is bounded in lines and bytes, and drops the oldest", async () => {
    const id = await fixture.create();
    await fixture.host.askLog(id);
    for (let batch = 0; batch < 6; batch++) {
      await fixture.advance(10);
      await fixture.host.say(
        id,
        Array.from({ length: 4000 }, (_, nth) => line(`${batch}-${nth}`, NOW + batch * 10)),
        `j:${batch}`,
      );
      await fixture.idleClock.advance(1000, () => fixture.control.settled());
    }
    const { lines } = await fixture.store.sandboxLogs.extentOf(id);
    expect(lines).toBeLessThanOrEqual(LOG_LINES_PER_SANDBOX_MAX);
    expect(lines).toBeGreaterThan(LOG_LINES_PER_SANDBOX_MAX / 2);
    expect(texts(await entries(id, "?limit=1"))).toEqual(["5-3999"]);
    const fat = "x".repeat(1000);
    for (let batch = 0; batch < 10; batch++) {
      await fixture.advance(10);
      await fixture.host.say(
        id,
        Array.from({ length: 1500 }, () => line(fat, NOW + 100 + batch * 10)),
        `k:${batch}`,
      );
      await fixture.idleClock.advance(1000, () => fixture.control.settled());
    }
    expect((await fixture.store.sandboxLogs.extentOf(id)).bytes).toBeLessThanOrEqual(LOG_BYTES_PER_SANDBOX_MAX);
  });
});
