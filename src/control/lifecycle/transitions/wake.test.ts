/** Traffic to a paused sandbox: which requests wake it, only once, and what happens to requests that may not. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import type { Wake, WakeRequest } from "../../../contract/internal/directory.ts";
import { ControlFixture } from "../../testing/control-fixture.ts";

const RUNTIME_PORT = 49_983;

let f: ControlFixture;
beforeEach(async () => {
  f = await ControlFixture.open();
});
afterEach(() => f[Symbol.asyncDispose]());

/** As from an edge on another machine: values pass as JSON. */
async function wake(id: string, request: Partial<WakeRequest> = {}): Promise<Wake> {
  const answer = await f.control.directory.wake(id, {
    port: 3000,
    accessToken: null,
    trafficToken: null,
    mayWake: true,
    ...request,
  });
  const carried: Wake = JSON.parse(JSON.stringify(answer));
  expect(carried).toEqual(answer);
  // A woken sandbox has its route by then, though the response does not contain it.
  if ("woken" in carried) expect(f.find(id)).toMatchObject({ isOpen: true });
  return carried;
}

async function paused(fields: Record<string, unknown> = {}, how: Record<string, unknown> = {}): Promise<string> {
  const id = await f.create({ timeout: 60, autoResume: { enabled: true }, ...fields });
  expect((await f.call("POST", `/sandboxes/${id}/pause`, how)).status).toBe(204);
  return id;
}

describe("a paused sandbox with auto-resume", () => {
  test("is woken with its memory and tokens for at least five minutes", async () => {
    const id = await paused({ timeout: 60, secure: true });
    const token = (await f.call("GET", `/sandboxes/${id}`)).body.envdAccessToken;
    expect(await wake(id)).toEqual({ woken: true });
    expect(f.find(id)).toMatchObject({ endpoint: { host: "127.0.0.1" } });
    expect(f.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
    expect(await f.endOf(id)).toBe(300);
    expect<unknown>(f.host.requestOf(id)?.accessTokens).toEqual([token]);
    expect(f.eventsOf(id)).toEqual(["created", "paused", "resumed"]);
  });

  test("is woken for its original timeout, if that is longer", async () => {
    const id = await paused({ timeout: 1000 });
    await wake(id);
    expect(await f.endOf(id)).toBe(1000);
  });

  test("is woken once by a hundred requests, and once more after the next pause", async () => {
    const id = await paused();
    let starts = 0;
    f.host.beforeResume = async () => void starts++;
    const wakes = await Promise.all(Array.from({ length: 100 }, () => wake(id)));
    expect(wakes.every((each) => "woken" in each)).toBe(true);
    expect(starts).toBe(1);
    await f.call("POST", `/sandboxes/${id}/pause`);
    await wake(id);
    expect(starts).toBe(2);
  });

  test("joins a connect in progress", async () => {
    const id = await paused();
    let starts = 0;
    f.host.beforeResume = async () => void starts++;
    const [reply, woken] = await Promise.all([f.call("POST", `/v2/sandboxes/${id}/connect`), wake(id)]);
    expect([reply.status, "woken" in woken, starts]).toEqual([201, true, 1]);
  });

  test("at the end of its timeout is woken as soon as it is paused", async () => {
    const id = await f.create({ timeout: 5, autoPause: true, autoResume: { enabled: true } });
    const { begun, finish } = f.hold("beforePause");
    const passed = f.advance(5_000);
    await begun;
    const waking = wake(id);
    finish();
    expect(await waking).toHaveProperty("woken");
    await passed;
    expect(f.host.contentsOf(id)).toEqual({ boot: 1, disk: 1 });
  });

  test.each([
    ["the runtime without a token", RUNTIME_PORT, () => null, "forbidden"],
    ["the runtime with a wrong token", RUNTIME_PORT, () => "0".repeat(64), "forbidden"],
    ["the runtime with its token", RUNTIME_PORT, (token: string) => token, "woken"],
    ["another port without a token", 3000, () => null, "woken"],
  ])("requested for %s", async (_, port, given, outcome) => {
    const id = await paused({ secure: true });
    const token = (await f.call("GET", `/sandboxes/${id}`)).body.envdAccessToken ?? "";
    const answer = await wake(id, { port, accessToken: given(token) });
    expect("refused" in answer ? answer.refused : "woken").toBe(outcome);
    expect(f.host.running).toEqual(outcome === "woken" ? [id] : []);
  });

  test("that is open is woken without a token, also for its runtime", async () => {
    expect(await wake(await paused(), { port: RUNTIME_PORT })).toHaveProperty("woken");
  });

  test("accepts an earlier token, too", async () => {
    const id = await paused({ secure: true });
    const first = (await f.call("GET", `/sandboxes/${id}`)).body.envdAccessToken;
    await f.call("POST", `/sandboxes/${id}/resume`);
    await f.call("POST", `/sandboxes/${id}/pause`);
    expect(await wake(id, { port: RUNTIME_PORT, accessToken: first })).toHaveProperty("woken");
  });

  test("without memory in its checkpoint is not woken", async () => {
    const id = await paused({}, { memory: false });
    expect(await wake(id)).toEqual({ refused: "not-found" });
    expect((await f.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });

  test("with a checkpoint that does not fit is not found; a host failure is thrown", async () => {
    const id = await paused();
    f.host.beforeResume = async () => {
      throw new Fault(422, "does not fit");
    };
    expect(await wake(id)).toEqual({ refused: "not-found" });
    f.host.beforeResume = async () => {
      throw new Error("criu");
    };
    await expect(wake(id)).rejects.toBeInstanceOf(Fault);
    expect((await f.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });
});

describe("a health check", () => {
  const ask = (id: string) => wake(id, { port: RUNTIME_PORT, mayWake: false });

  test("leaves a paused sandbox paused, secured or not, and gets the usual response", async () => {
    for (const id of [await paused(), await paused({ secure: true })]) {
      expect(await ask(id)).toEqual({ refused: "not-found" });
      expect((await f.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
    }
    expect(f.host.running).toEqual([]);
  });

  test("during a pause neither waits for its end nor resumes the sandbox", async () => {
    const id = await f.create({ timeout: 5, autoPause: true, autoResume: { enabled: true } });
    const { begun, finish } = f.hold("beforePause");
    const passed = f.advance(5_000);
    await begun;
    expect(await ask(id)).toEqual({ refused: "not-found" });
    finish();
    await passed;
    expect(f.host.running).toEqual([]);
  });

  test("during a resume waits for it without a token, and does not retry a failed one", async () => {
    const id = await paused({ secure: true });
    const failing = f.hold("beforeResume", new Fault(503, "no room"));
    const refused = wake(id);
    await failing.begun;
    const unanswered = ask(id);
    failing.finish();
    expect(await unanswered).toEqual({ refused: "not-found" });
    expect(await refused).toEqual({ refused: "unavailable" });
    const { begun, finish } = f.hold("beforeResume");
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
  await f.call("DELETE", `/sandboxes/${id}`);
  expect(await wake(id)).toEqual({ refused: "not-found" });
});

test("a request does not wait for a pause without auto-resume", async () => {
  const id = await f.create({ timeout: 60 });
  const { begun, finish } = f.hold("beforePause");
  const pausing = f.call("POST", `/sandboxes/${id}/pause`);
  await begun;
  expect(await wake(id)).toEqual({ refused: "not-found" });
  finish();
  await pausing;
});

test("every request waits for a copy in progress", async () => {
  const id = await f.create({ timeout: 60, secure: true });
  const { begun, finish } = f.hold("beforeSnapshot");
  const making = f.call("POST", `/sandboxes/${id}/snapshots`, {});
  await begun;
  const waking = wake(id, { port: RUNTIME_PORT });
  await f.until(() => f.clock.timers === 2);
  finish();
  expect(await waking).toHaveProperty("woken");
  await making;
});

test("a sandbox that stays in transition for a minute is reported as in transition", async () => {
  const id = await f.create({ timeout: 600, autoResume: { enabled: true } });
  const { begun, finish } = f.hold("beforePause");
  const pausing = f.call("POST", `/sandboxes/${id}/pause`);
  await begun;
  const waking = wake(id);
  await f.until(() => f.clock.timers === 2);
  await f.clock.advance(60_000, async () => undefined);
  expect(await waking).toEqual({ refused: "in-transition" });
  finish();
  await pausing;
});

test("a kill during a wake wins", async () => {
  const id = await paused();
  const { begun, finish } = f.hold("beforeResume");
  const waking = wake(id);
  await begun;
  const killing = f.call("DELETE", `/sandboxes/${id}`);
  await f.killWanted(id);
  finish();
  expect([(await killing).status, await waking]).toEqual([204, { refused: "in-transition" }]);
  expect([f.host.running, f.host.checkpoints]).toEqual([[], []]);
});
