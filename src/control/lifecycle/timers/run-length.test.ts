/** A team whose sandboxes may run for a minute: no run gets more, however it is started or prolonged. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../../contract/fault.ts";
import { ControlFixture, type Reply } from "../../testing/control-fixture.ts";

const MOST = 60;

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  await limit(MOST);
});
afterEach(() => fixture[Symbol.asyncDispose]());

const limit = (runSeconds: number | undefined) =>
  fixture.store.people.setLimits(fixture.firstRun.teamId, { runSeconds });
const post = (path: string, body?: unknown) => fixture.call("POST", path, body);
const refusal = ({ status, body }: Reply) => [status, body?.message];
const TOO_LONG = [400, expect.stringContaining(`timeout must be at most ${MOST},`)];

describe("a new run", () => {
  test.each([
    ["/sandboxes", 15],
    ["/v2/sandboxes", MOST],
  ])("%s: a timeout above the maximum is rejected, a default above it becomes the maximum", async (path, otherwise) => {
    const create = (timeout?: number) => post(path, { templateID: "base", timeout });
    expect(refusal(await create(MOST + 1))).toEqual(TOO_LONG);
    expect(fixture.host.running).toEqual([]);
    const exact = await create(MOST);
    expect([exact.status, await fixture.endOf(exact.body.sandboxID)]).toEqual([201, MOST]);
    const plain = await create();
    expect([plain.status, await fixture.endOf(plain.body.sandboxID)]).toEqual([201, otherwise]);
  });

  test("a v1 default above the maximum becomes the maximum, also for resume and fork", async () => {
    await limit(10);
    const { sandboxID: id } = (await post("/sandboxes", { templateID: "base" })).body;
    expect(await fixture.endOf(id)).toBe(10);
    const copies = (await post(`/sandboxes/${id}/fork`)).body as unknown as { sandbox: { sandboxID: string } }[];
    expect(await fixture.endOf(copies[0]?.sandbox.sandboxID ?? "")).toBe(10);
    await post(`/sandboxes/${id}/pause`);
    expect((await post(`/sandboxes/${id}/resume`)).status).toBe(201);
    expect(await fixture.endOf(id)).toBe(10);
  });

  test("of a copy or a paused sandbox is rejected above the maximum", async () => {
    const id = await fixture.create({ timeout: 30 });
    expect(refusal(await post(`/sandboxes/${id}/fork`, { timeout: MOST + 1 }))).toEqual(TOO_LONG);
    await post(`/sandboxes/${id}/pause`);
    for (const path of [`/sandboxes/${id}/resume`, `/sandboxes/${id}/connect`, `/v2/sandboxes/${id}/connect`]) {
      expect(refusal(await post(path, { timeout: MOST + 1 }))).toEqual(TOO_LONG);
      expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
    }
    await fixture.advance(100_000);
    expect((await post(`/v2/sandboxes/${id}/connect`)).status).toBe(201);
    expect(await fixture.endOf(id)).toBe(100 + MOST);
  });

  test.each([
    ["the five minutes of every wake", 30],
    ["the time that it was created for", 1000],
  ])("by traffic lasts at most the maximum, not %s", async (_, timeout) => {
    await limit(undefined);
    const id = await fixture.create({ timeout, autoResume: { enabled: true } });
    await post(`/sandboxes/${id}/pause`);
    await limit(MOST);
    expect(
      await fixture.control.directory.wake(id, { port: 3000, accessToken: null, trafficToken: null, mayWake: true }),
    ).toHaveProperty("woken");
    expect(await fixture.endOf(id)).toBe(MOST);
  });

  test("without a maximum has the requested timeout", async () => {
    await limit(undefined);
    expect(await fixture.endOf(await fixture.create({ timeout: 2_147_483_647 }))).toBe(2_147_483_647);
  });
});

describe("a run of 40 seconds", () => {
  let id: string;
  beforeEach(async () => {
    id = await fixture.create({ timeout: 50 });
    await fixture.advance(40_000);
  });

  test.each([
    ["timeout", { timeout: 30 }, MOST],
    ["timeout", { timeout: 1_000_000 }, MOST],
    ["timeout", { timeout: 15 }, 55],
    ["timeout", { timeout: 5 }, 45],
    ["refreshes", { duration: 3600 }, MOST],
    ["refreshes", { duration: 15 }, 55],
    ["refreshes", { duration: 5 }, 50],
  ])("%s %j: it ends after %p", async (path, body, end) => {
    expect((await post(`/sandboxes/${id}/${path}`, body)).status).toBe(204);
    expect(await fixture.endOf(id)).toBe(end);
  });

  test.each([
    ["/sandboxes/ID/connect", { timeout: 5 }, 45],
    ["/sandboxes/ID/connect", { timeout: 30 }, MOST],
    ["/v2/sandboxes/ID/connect", { timeout: 5 }, 50],
    ["/v2/sandboxes/ID/connect", { timeout: 30 }, MOST],
    ["/v2/sandboxes/ID/connect", {}, MOST],
  ])("%s %j: it ends after %p", async (path, body, end) => {
    expect((await post(path.replace("ID", id), body)).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(end);
  });

  test("connect for longer than the maximum is rejected, although the sandbox runs", async () => {
    for (const path of [`/sandboxes/${id}/connect`, `/v2/sandboxes/${id}/connect`]) {
      expect(refusal(await post(path, { timeout: MOST + 1 }))).toEqual(TOO_LONG);
    }
    expect(await fixture.endOf(id)).toBe(50);
  });
});

describe("a run that is older than the maximum", () => {
  let id: string;
  beforeEach(async () => {
    await limit(undefined);
    id = await fixture.create({ timeout: 500 });
    await fixture.advance(100_000);
    await limit(MOST);
  });

  test("keeps its end: it cannot be extended, but connected to and killed", async () => {
    const ranTooLong = [400, expect.stringContaining(`has run for the ${MOST} seconds`)];
    expect(refusal(await post(`/sandboxes/${id}/timeout`, { timeout: 30 }))).toEqual(ranTooLong);
    expect(refusal(await post(`/sandboxes/${id}/refreshes`, { duration: 30 }))).toEqual(ranTooLong);
    expect((await post(`/v2/sandboxes/${id}/connect`)).status).toBe(200);
    expect((await post(`/sandboxes/${id}/connect`, { timeout: 30 })).status).toBe(200);
    expect(await fixture.endOf(id)).toBe(500);
    expect((await post(`/sandboxes/${id}/timeout`, { timeout: 0 })).status).toBe(204);
    await fixture.advance(0);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("begins again with a resume", async () => {
    await post(`/sandboxes/${id}/pause`);
    expect((await post(`/v2/sandboxes/${id}/connect`, { timeout: 30 })).status).toBe(201);
    expect((await post(`/sandboxes/${id}/timeout`, { timeout: 45 })).status).toBe(204);
    expect(await fixture.endOf(id)).toBe(145);
  });
});

test("a failed pause at the end of the longest run is postponed like any other", async () => {
  const id = await fixture.create({ timeout: MOST, autoPause: true });
  fixture.host.beforePause = async () => {
    throw new Fault(422, "cannot be kept");
  };
  await fixture.advance(MOST * 1000);
  expect(await fixture.endOf(id)).toBe(MOST + 300);
  expect((await post(`/v2/sandboxes/${id}/connect`)).status).toBe(200);
});
