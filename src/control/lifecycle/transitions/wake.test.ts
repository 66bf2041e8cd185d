/** Traffic to a paused sandbox: which requests wake it, only once, and what happens to requests that may not. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { Wake, WakeRequest } from "../../../contract/internal/directory.ts";
import { ControlFixture } from "../../testing/control-fixture.ts";

const RUNTIME_PORT = 49_983;

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** As from an edge on another machine: values pass as JSON. */
async function wake(id: string, request: Partial<WakeRequest> = {}): Promise<Wake> {
  const answer = await fixture.control.directory.wake(id, {
    port: 3000,
    accessToken: null,
    trafficToken: null,
    mayWake: true,
    ...request,
  });
  const carried: Wake = JSON.parse(JSON.stringify(answer));
  expect(carried).toEqual(answer);
  // A woken sandbox has its route by then, though the response does not contain it.
  if ("woken" in carried) expect(fixture.find(id)).toMatchObject({ isOpen: true });
  return carried;
}

async function paused(fields: Record<string, unknown> = {}, how: Record<string, unknown> = {}): Promise<string> {
  const id = await fixture.create({ timeout: 60, autoResume: { enabled: true }, ...fields });
  expect((await fixture.call("POST", `/sandboxes/${id}/pause`, how)).status).toBe(204);
  return id;
}

describe("a paused sandbox with auto-resume", () => {
  test("is woken with its memory and tokens for at least five minutes", async () => {
    const id = await paused({ timeout: 60, secure: true });
    const token = (await fixture.call("GET", `/sandboxes/${id}`)).body.envdAccessToken;
    expect(await wake(id)).toEqual({ woken: true });
    expect(fixture.find(id)).toMatchObject({ endpoint: { host: "127.0.0.1" } });
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
    expect(await fixture.endOf(id)).toBe(300);
    expect<unknown>(fixture.host.requestOf(id)?.accessTokens).toEqual([token]);
    expect(fixture.eventsOf(id)).toEqual(["created", "paused", "resumed"]);
  });

  test("is woken for its original timeout, if that is longer", async () => {
    const id = await paused({ timeout: 1000 });
    await wake(id);
    expect(await fixture.endOf(id)).toBe(1000);
  });

  test("is woken once by a hundred requests, and once more after the next pause", async () => {
    const id = await paused();
    let starts = 0;
    fixture.host.beforeResume = async () => void starts++;
    const wakes = await Promise.all(Array.from({ length: 100 }, () => wake(id)));
    expect(wakes.every((each) => "woken" in each)).toBe(true);
    expect(starts).toBe(1);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    await wake(id);
    expect(starts).toBe(2);
  });

  test("joins a connect in progress", async () => {
    const id = await paused();
    let starts = 0;
    fixture.host.beforeResume = async () => void starts++;
    const [reply, woken] = await Promise.all([fixture.call("POST", `/v2/sandboxes/${id}/connect`), wake(id)]);
    expect([reply.status, "woken" in woken, starts]).toEqual([201, true, 1]);
  });

  test("at the end of its timeout is woken as soon as it is paused", async () => {
    const id = await fixture.create({ timeout: 5, autoPause: true, autoResume: { enabled: true } });
    const { begun, finish } = fixture.hold("beforePause");
    const passed = fixture.advance(5_000);
    await begun;
    const waking = wake(id);
    finish();
    expect(await waking).toHaveProperty("woken");
    await passed;
    expect(fixture.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
  });

  test.each([
    ["the runtime without a token", RUNTIME_PORT, () => null, "forbidden"],
    ["the runtime with a wrong token", RUNTIME_PORT, () => "0".repeat(64), "forbidden"],
    ["the runtime with its token", RUNTIME_PORT, (token: string) => token, "woken"],
    ["another port without a token", 3000, () => null, "woken"],
  ])("requested for %s", async (_, port, given, outcome) => {
    const id = await paused({ secure: true });
    const token = (await fixture.call("GET", `/sandboxes/${id}`)).body.envdAccessToken ?? "";
    const answer = await wake(id, { port, accessToken: given(token) });
    expect("refused" in answer ? answer.refused : "woken").toBe(outcome);
    expect(fixture.host.running).toEqual(outcome === "woken" ? [id] : []);
  });

  test("that is open is woken without a token, also for its runtime", async () => {
    expect(await wake(await paused(), { port: RUNTIME_PORT })).toHaveProperty("woken");
  });

  test("accepts an earlier token, too", async () => {
    const id = await paused({ secure: true });
    const first = (await fixture.call("GET", `/sandboxes/${id}`)).body.envdAccessToken;
    await fixture.call("POST", `/sandboxes/${id}/resume`);
    await fixture.call("POST", `/sandboxes/${id}/pause`);
    expect(await wake(id, { port: RUNTIME_PORT, accessToken: first })).toHaveProperty("woken");
  });

  test("without memory in its checkpoint is not woken", async () => {
    const id = await paused({}, { memory: false });
    expect(await wake(id)).toEqual({ refused: "not-found" });
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });

  test("with a checkpoint that does not fit is not found, and the log says why; a host failure is thrown", async () => {
    const id = await paused();
    fixture.host.beforeResume = async () => {
      throw new Fault(422, "does not fit");
    };
    expect(await wake(id)).toEqual({ refused: "not-found" });
    expect(fixture.logLines.filter((line) => line.includes("could not wake a sandbox"))).toEqual([
      expect.stringContaining("does not fit"),
    ]);
    fixture.host.beforeResume = async () => {
      throw new Error("criu");
    };
    await expect(wake(id)).rejects.toBeInstanceOf(Fault);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });
});

describe("a health check", () => {
  const ask = (id: string) => wake(id, { port: RUNTIME_PORT, mayWake: false });

  test("leaves a paused sandbox paused, secured or not, and gets the usual response", async () => {
    for (const id of [await paused(), await paused({ secure: true })]) {
      expect(await ask(id)).toEqual({ refused: "not-found" });
      expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
    }
    expect(fixture.host.running).toEqual([]);
  });

  test("during a pause neither waits for its end nor resumes the sandbox", async () => {
    const id = await fixture.create({ timeout: 5, autoPause: true, autoResume: { enabled: true } });
    const { begun, finish } = fixture.hold("beforePause");
    const passed = fixture.advance(5_000);
    await begun;
    expect(await ask(id)).toEqual({ refused: "not-found" });
    finish();
    await passed;
    expect(fixture.host.running).toEqual([]);
  });

  test("during a resume waits for it without a token, and does not retry a failed one", async () => {
    const id = await paused({ secure: true });
    const failing = fixture.hold("beforeResume", new Fault(503, "no room"));
    const refused = wake(id);
    await failing.begun;
    const unanswered = ask(id);
    failing.finish();
    expect(await unanswered).toEqual({ refused: "not-found" });
    expect(await refused).toEqual({ refused: "unavailable" });
    const { begun, finish } = fixture.hold("beforeResume");
    const waking = wake(id);
    await begun;
    const request = ask(id);
    finish();
    expect([await request, await waking]).toEqual([expect.anything(), expect.anything()]);
    expect(await request).not.toHaveProperty("refused");
  });
});

test("a sandbox without auto-resume and an unknown one are not found", async () => {
  const id = await paused({ autoResume: undefined });
  expect(await wake(id)).toEqual({ refused: "not-found" });
  expect(await wake("i00000000000000000000")).toEqual({ refused: "not-found" });
  await fixture.call("DELETE", `/sandboxes/${id}`);
  expect(await wake(id)).toEqual({ refused: "not-found" });
});

test("a request does not wait for a pause without auto-resume", async () => {
  const id = await fixture.create({ timeout: 60 });
  const { begun, finish } = fixture.hold("beforePause");
  const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
  await begun;
  expect(await wake(id)).toEqual({ refused: "not-found" });
  finish();
  await pausing;
});

test("every request waits for a copy in progress", async () => {
  const id = await fixture.create({ timeout: 60, secure: true });
  const { begun, finish } = fixture.hold("beforeSnapshot");
  const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
  await begun;
  const waking = wake(id, { port: RUNTIME_PORT });
  await fixture.until(() => fixture.clock.timers === 2);
  finish();
  expect(await waking).toHaveProperty("woken");
  await making;
});

test("a sandbox that stays in transition for a minute is reported as in transition", async () => {
  const id = await fixture.create({ timeout: 600, autoResume: { enabled: true } });
  const { begun, finish } = fixture.hold("beforePause");
  const pausing = fixture.call("POST", `/sandboxes/${id}/pause`);
  await begun;
  const waking = wake(id);
  await fixture.until(() => fixture.clock.timers === 2);
  await fixture.clock.advance(60_000, async () => undefined);
  expect(await waking).toEqual({ refused: "in-transition" });
  finish();
  await pausing;
});

test("a kill during a wake wins", async () => {
  const id = await paused();
  const { begun, finish } = fixture.hold("beforeResume");
  const waking = wake(id);
  await begun;
  const killing = fixture.call("DELETE", `/sandboxes/${id}`);
  await fixture.killWanted(id);
  finish();
  expect([(await killing).status, await waking]).toEqual([204, { refused: "in-transition" }]);
  expect([fixture.host.running, fixture.host.checkpoints]).toEqual([[], []]);
});
