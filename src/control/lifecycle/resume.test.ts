/** Resuming a paused sandbox: connect, resume, and both on a sandbox between two states. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { ResumeSandbox } from "../../contract/internal/host.ts";
import { ControlFixture, NOW, type Reply } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let id: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({ timeout: 60, secure: true, envVars: { A: "b" }, allow_internet_access: false });
  await fixture.advance(10_000);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const pause = (body?: unknown) => fixture.call("POST", `/sandboxes/${id}/pause`, body);
const resume = (body?: unknown) => fixture.call("POST", `/sandboxes/${id}/resume`, body);
const connect = (body: unknown = {}) => fixture.call("POST", `/v2/sandboxes/${id}/connect`, body);
const read = async () => (await fixture.call("GET", `/sandboxes/${id}`)).body;

describe("a paused sandbox", () => {
  let before: Reply["body"];
  beforeEach(async () => {
    before = await read();
    expect((await pause()).status).toBe(204);
    await fixture.advance(100_000);
  });

  test.each([
    ["/v2/sandboxes/ID/connect", undefined, 300],
    ["/v2/sandboxes/ID/connect", { timeout: 40 }, 40],
    ["/sandboxes/ID/connect", { timeout: 40 }, 40],
    ["/sandboxes/ID/resume", undefined, 15],
    ["/sandboxes/ID/resume", { timeout: 40 }, 40],
  ])("%s %j: 201, the same sandbox in a new run of %p seconds", async (path, body, seconds) => {
    const contents = { boot: 1, disk: 1 };
    const reply = await fixture.call("POST", path.replace("ID", id), body);
    expect(reply.status).toBe(201);
    expect(reply.body).toMatchObject({ sandboxID: id, templateID: before.templateID, alias: "base" });
    expect(await read()).toEqual({
      ...before,
      envdAccessToken: reply.body.envdAccessToken,
      startedAt: new Date(NOW + 110_000).toISOString(),
      endAt: new Date(NOW + 110_000 + seconds * 1000).toISOString(),
    });
    expect(fixture.host.contentsOf(id)).toEqual(contents);
    expect(fixture.host.requestOf(id)).toMatchObject({ envVars: { A: "b" }, egress: "closed", memory: true });
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toEqual([]);
    await fixture.advance(seconds * 1000);
    expect(fixture.host.destroyed).toEqual([id]);
    expect(fixture.eventsOf(id)).toEqual(["created", "paused", "resumed", "killed"]);
  });

  test("each run has its own execution id", async () => {
    const runs = new Set([(await fixture.store.sandboxes.byId(id))?.executionId]);
    await connect();
    runs.add((await fixture.store.sandboxes.byId(id))?.executionId);
    await pause();
    await connect();
    runs.add((await fixture.store.sandboxes.byId(id))?.executionId);
    expect(runs.size).toBe(3);
  });

  test("with timeout 0 every resume is rejected, because it would end at once; it stays paused", async () => {
    expect((await resume({ timeout: 0 })).status).toBe(400);
    expect((await connect({ timeout: 0 })).status).toBe(400);
    const reply = await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 0 });
    expect([reply.status, reply.body.message]).toEqual([
      400,
      expect.stringContaining("deleted as soon as it is resumed"),
    ]);
    await fixture.advance(0);
    expect((await read()).state).toBe("paused");
    expect(fixture.host.destroyed).toEqual([]);
  });

  test("with autoPause and timeout 0 it is resumed, and paused again at once", async () => {
    const keeper = await fixture.create({ timeout: 600, autoPause: true });
    expect((await fixture.call("POST", `/sandboxes/${keeper}/pause`)).status).toBe(204);
    expect((await fixture.call("POST", `/sandboxes/${keeper}/connect`, { timeout: 0 })).status).toBe(201);
    await fixture.advance(0);
    expect(fixture.eventsOf(keeper)).toEqual(["created", "paused", "resumed", "paused"]);
  });

  test.each([
    ["connect", { memory: false }, false],
    ["connect", { memory: true }, true],
    ["resume", { memory: false }, false],
  ])("%s %j starts with its memory: %p", async (path, body, memory) => {
    const reply = await fixture.call(
      "POST",
      path === "connect" ? `/v2/sandboxes/${id}/connect` : `/sandboxes/${id}/resume`,
      body,
    );
    expect(reply.status).toBe(201);
    expect(fixture.host.requestOf(id)).toMatchObject({ memory });
    expect(fixture.host.contentsOf(id)).toEqual({ boot: memory ? 1 : 2, disk: 1 });
  });

  test("/resume adds a new token to the old ones, connect does not", async () => {
    const first = before.envdAccessToken ?? "";
    expect((await connect()).body.envdAccessToken).toBe(first);
    await pause();
    const { envdAccessToken: second } = (await resume()).body;
    expect(second).toMatch(/^[0-9a-f]{64}$/);
    expect(second).not.toBe(first);
    expect<unknown>(fixture.host.requestOf(id)?.accessTokens).toEqual([first, second]);
    expect((await read()).envdAccessToken).toBe(second);
    for (let nth = 0; nth < 20; nth++) {
      await pause();
      await resume({ timeout: 600 });
    }
    const tokens = fixture.host.requestOf(id)?.accessTokens ?? [];
    expect(tokens).toHaveLength(16);
    expect(tokens).not.toContain(first);
    expect<unknown>((await read()).envdAccessToken).toBe(tokens.at(-1));
  });

  test("autoPause of a resume applies from then on", async () => {
    await resume({ timeout: 5, autoPause: true });
    expect((await read()).lifecycle.onTimeout).toBe("pause");
    await fixture.advance(5_000);
    expect((await read()).state).toBe("paused");
    await resume({ timeout: 5 });
    expect((await read()).lifecycle.onTimeout).toBe("pause");
    await fixture.advance(5_000);
    await resume({ timeout: 5, autoPause: false });
    await fixture.advance(5_000);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("that cannot be resumed stays paused and loses nothing", async () => {
    for (const [thrown, status, reported] of [
      [new Fault(422, "the checkpoint needs avx512; resume with memory: false"), 422, "avx512"],
      [new Fault(503, "no room"), 503, "Failed to place sandbox: no room"],
      [new Error("criu: dump.c:12"), 500, "stays paused"],
    ] as const) {
      fixture.host.beforeResume = async () => {
        throw thrown;
      };
      const reply = await connect();
      expect([reply.status, reply.body.message]).toEqual([status, expect.stringContaining(reported)]);
      expect(reply.body.message).not.toContain("criu");
      expect((await read()).state).toBe("paused");
    }
    fixture.host.beforeResume = async () => undefined;
    expect((await connect()).status).toBe(201);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
  });

  test("an unexpected failure is logged, and the resume is repeated once", async () => {
    fixture.host.beforeResume = async () => {
      fixture.host.beforeResume = async () => undefined;
      throw new Error("criu: dump.c:12");
    };
    expect((await connect()).status).toBe(201);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
    expect(fixture.logLines.some((line) => /resume repeated after a failure.*dump\.c:12/.test(line))).toBe(true);
  });

  test("two concurrent resumes share one start, and each gets at least its timeout", async () => {
    let starts = 0;
    const begun = Promise.withResolvers<void>();
    fixture.host.beforeResume = async () => {
      starts++;
      begun.resolve();
      // Until the others only wait for it.
      await fixture.untilIdle();
    };
    const first = resume({ timeout: 20 });
    await begun.promise;
    const replies = await Promise.all([first, resume({ timeout: 90 }), connect({ timeout: 50 })]);
    expect(replies.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(replies.map(({ body }) => body.envdAccessToken)).size).toBe(1);
    expect(starts).toBe(1);
    expect(await fixture.endOf(id)).toBe(110 + 90);
  });

  test("a caller with other options than the current start waits, and finds the sandbox running", async () => {
    const { begun, finish } = fixture.hold("beforeResume");
    const first = connect({ timeout: 20 });
    await begun;
    const [resumed, rebooted] = [resume({ timeout: 90, autoPause: true }), connect({ timeout: 50, memory: false })];
    finish();
    expect((await first).status).toBe(201);
    expect(await resumed).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining("is already running") },
    });
    expect((await rebooted).status).toBe(200);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
    expect(await fixture.endOf(id)).toBe(110 + 50);
  });

  test("a caller with other options than a failed start tries its own", async () => {
    let starts = 0;
    fixture.host.beforeResume = async ({ memory }) => {
      starts++;
      if (memory) throw new Fault(422, "the memory does not fit");
    };
    const [kept, rebooted] = await Promise.all([connect(), connect({ memory: false })]);
    expect([kept.status, rebooted.status, starts]).toEqual([422, 201, 2]);
  });

  test("two concurrent resumes get the same refusal", async () => {
    fixture.host.beforeResume = async () => {
      throw new Fault(503, "no room");
    };
    expect((await Promise.all([connect(), connect()])).map(({ status }) => status)).toEqual([503, 503]);
  });

  test("the removal of its checkpoint is retried", async () => {
    let failures = 2;
    fixture.host.beforeRemoveCheckpoint = async () => {
      if (failures-- > 0) throw new Error("busy");
    };
    expect((await connect({ timeout: 600 })).status).toBe(201);
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toHaveLength(1);
    await fixture.advance(3_000);
    expect(fixture.host.checkpoints).toEqual([]);
  });

  test("its checkpoint is removed when no caller waits for another resume", async () => {
    const other = await fixture.create({ timeout: 600 });
    await fixture.call("POST", `/sandboxes/${other}/pause`);
    const held = Promise.withResolvers<void>();
    fixture.host.beforeResume = async (request) => {
      if (request.id === other) await held.promise;
    };
    const connecting = fixture.call("POST", `/v2/sandboxes/${other}/connect`, { timeout: 600 });
    expect((await connect({ timeout: 600 })).status).toBe(201);
    await fixture.untilIdle();
    expect(fixture.host.checkpoints).toHaveLength(2);
    held.resolve();
    expect((await connecting).status).toBe(201);
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toEqual([]);
  });

  test("while it is being resumed it reads as paused", async () => {
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<ResumeSandbox>();
    fixture.host.beforeResume = (request) => {
      begun.resolve(request);
      return held.promise;
    };
    const connecting = connect();
    await begun.promise;
    expect((await read()).state).toBe("paused");
    expect((await fixture.call("GET", "/v2/sandboxes?state=paused")).body).toHaveLength(1);
    const waiting = fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 9 });
    await fixture.until(() => fixture.clock.timers === 1);
    held.resolve();
    expect([(await connecting).status, (await waiting).status]).toEqual([201, 204]);
  });
});

describe("on a running sandbox", () => {
  test("/resume is 409, connect 200, also without memory", async () => {
    expect((await resume()).status).toBe(409);
    expect((await connect({ memory: false })).status).toBe(200);
    expect((await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 9, memory: false })).status).toBe(200);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
  });

  test("/resume of an unknown sandbox is 404", async () => {
    expect((await fixture.call("POST", "/sandboxes/i00000000000000000000/resume")).status).toBe(404);
  });
});

describe("on a sandbox that is being paused", () => {
  test("two concurrent connects wait for it and resume it once", async () => {
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    const [first, second] = [connect(), connect()];
    await fixture.until(() => fixture.clock.timers === 3);
    finish();
    expect((await pausing).status).toBe(204);
    expect([(await first).status, (await second).status]).toEqual([201, 201]);
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
    expect(fixture.host.collisions).toEqual([]);
  });

  test("connect gives up after a minute with 409", async () => {
    const { begun, finish } = fixture.hold("beforePause");
    const pausing = pause();
    await begun;
    const connecting = connect();
    await fixture.until(() => fixture.clock.timers === 2);
    await fixture.clock.advance(60_000, async () => undefined);
    expect((await connecting).status).toBe(409);
    finish();
    await pausing;
  });

  test("connect after a pause that failed finds it running", async () => {
    const { begun, finish } = fixture.hold("beforePause", new Fault(422, "cannot be kept"));
    const pausing = pause();
    await begun;
    const connecting = connect({ timeout: 500 });
    await fixture.until(() => fixture.clock.timers === 2);
    finish();
    expect((await pausing).status).toBe(422);
    expect((await connecting).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(510);
  });
});
