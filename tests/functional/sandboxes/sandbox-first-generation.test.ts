/** The first generation of the interface, as specified: plain HTTP, as older clients and curl speak it. */
import { expect, test } from "bun:test";
import { timed } from "../../../src/base/testing/timed.ts";
import { sharedServer } from "../../support/shared-server.ts";

const server = sharedServer();

interface Created {
  sandboxID: string;
  envdAccessToken: string | null;
}

const call = (method: string, path: string, body?: unknown) => server().call(method, path, body);

async function create(options: Record<string, unknown>): Promise<Created> {
  const { status, body } = await call("POST", "/sandboxes", { templateID: "base", ...options });
  expect(status).toBe(201);
  return body as Created;
}

async function end(sandboxID: string): Promise<number> {
  const { body } = await call("GET", `/sandboxes/${sandboxID}`);
  return Date.parse((body as { endAt: string }).endAt);
}

/** Status of the runtime's process list for a request with `token`. */
async function runtimeStatus(sandboxID: string, token?: string): Promise<number> {
  const response = await fetch(`${server().url}/process.Process/List`, {
    method: "POST",
    headers: {
      "E2b-Sandbox-Id": sandboxID,
      "E2b-Sandbox-Port": "49983",
      "Content-Type": "application/json",
      ...(token === undefined ? {} : { "X-Access-Token": token }),
    },
    body: "{}",
  });
  await response.arrayBuffer();
  return response.status;
}

/** `act`, and whether the end it sets lies `seconds` after it. */
async function expectEnd(sandboxID: string, seconds: number, act: () => Promise<unknown>): Promise<void> {
  const before = Date.now();
  await act();
  const after = Date.now();
  const endAt = await end(sandboxID);
  expect(endAt).toBeGreaterThanOrEqual(before + seconds * 1000);
  expect(endAt).toBeLessThanOrEqual(after + seconds * 1000);
}

/**
 * A request sent a tenth of a second from now, or later, does not find the sandbox. A slow response to an earlier
 * request does not count.
 */
async function expectGoneAtOnce(sandboxID: string): Promise<void> {
  const began = performance.now();
  for (;;) {
    const startedAt = performance.now();
    if ((await call("GET", `/sandboxes/${sandboxID}`)).status === 404) return;
    expect(startedAt - began).toBeLessThan(100);
    await Bun.sleep(5);
  }
}

test("create and read return every field of the specification", async () => {
  const { status, body } = await call("POST", "/sandboxes", { templateID: "base" });
  expect(status).toBe(201);
  expect(body).toEqual({
    templateID: expect.stringMatching(/^[a-z0-9]{20}$/),
    sandboxID: expect.stringMatching(/^i[a-z0-9]{20}$/),
    clientID: expect.any(String),
    envdVersion: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    alias: "base",
    envdAccessToken: null,
    trafficAccessToken: null,
    domain: null,
  });
  const { sandboxID, templateID } = body as { sandboxID: string; templateID: string };
  const record = await call("GET", `/sandboxes/${sandboxID}`);
  expect(record.status).toBe(200);
  expect(record.body).toEqual({
    templateID,
    sandboxID,
    clientID: expect.any(String),
    startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    endAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    envdVersion: expect.any(String),
    cpuCount: 2,
    memoryMB: 1024,
    diskSizeMB: 10_240,
    state: "running",
    alias: "base",
    envdAccessToken: null,
    allowInternetAccess: null,
    domain: null,
    metadata: {},
    network: { allowPublicTraffic: true },
    lifecycle: { autoResume: false, onTimeout: "kill" },
    volumeMounts: [],
  });
  expect((await call("DELETE", `/sandboxes/${sandboxID}`)).status).toBe(204);
  expect((await call("DELETE", `/sandboxes/${sandboxID}`)).status).toBe(404);
});

test("without secure, or with secure false, the token is null and the runtime is open", async () => {
  for (const options of [{}, { secure: false }]) {
    const { sandboxID, envdAccessToken } = await create(options);
    expect(envdAccessToken).toBeNull();
    expect(await runtimeStatus(sandboxID)).toBe(200);
    expect(await runtimeStatus(sandboxID, "anything")).toBe(200);
    await call("DELETE", `/sandboxes/${sandboxID}`);
  }
});

test("with secure true the runtime requires the token", async () => {
  const { sandboxID, envdAccessToken } = await create({ secure: true });
  expect(envdAccessToken).toMatch(/^\S{32,}$/);
  expect(await runtimeStatus(sandboxID)).toBe(401);
  expect(await runtimeStatus(sandboxID, "anything")).toBe(401);
  expect(await runtimeStatus(sandboxID, envdAccessToken ?? "")).toBe(200);
  await call("DELETE", `/sandboxes/${sandboxID}`);
});

test("a sandbox lives 15 seconds by default", async () => {
  const before = Date.now();
  const { sandboxID } = await create({});
  const endAt = await end(sandboxID);
  expect(endAt).toBeGreaterThanOrEqual(before + 15_000);
  expect(endAt).toBeLessThanOrEqual(Date.now() + 15_000);
  await call("DELETE", `/sandboxes/${sandboxID}`);
});

timed("a sandbox with a timeout of 0 is created and ends at once", async () => {
  const { sandboxID } = await create({ timeout: 0 });
  await expectGoneAtOnce(sandboxID);
  expect(await runtimeStatus(sandboxID)).toBe(502);
});

test("connect sets the end to the given number of seconds from now", async () => {
  const { sandboxID, envdAccessToken } = await create({ secure: true, timeout: 600 });
  for (const timeout of [30, 1200]) {
    await expectEnd(sandboxID, timeout, async () => {
      const { status, body } = await call("POST", `/sandboxes/${sandboxID}/connect`, { timeout });
      expect(status).toBe(200);
      expect(body).toMatchObject({ sandboxID, envdAccessToken, domain: null });
    });
  }
  const untimed = await call("POST", `/sandboxes/${sandboxID}/connect`, {});
  expect(untimed).toMatchObject({ status: 400, body: { code: 400 } });
  await call("DELETE", `/sandboxes/${sandboxID}`);
});

timed("set timeout takes any number of seconds from 0", async () => {
  const { sandboxID } = await create({});
  for (const timeout of [86_400 * 30, 60]) {
    await expectEnd(sandboxID, timeout, async () => {
      expect((await call("POST", `/sandboxes/${sandboxID}/timeout`, { timeout })).status).toBe(204);
    });
  }
  for (const body of [{ timeout: -1 }, { timeout: "1" }, {}]) {
    expect((await call("POST", `/sandboxes/${sandboxID}/timeout`, body)).status).toBe(400);
  }
  expect((await call("POST", `/sandboxes/${sandboxID}/timeout`, { timeout: 0 })).status).toBe(204);
  await expectGoneAtOnce(sandboxID);
});

test("a refresh extends the timeout of a sandbox and never shortens it", async () => {
  const { sandboxID } = await create({ timeout: 10 });
  const refresh = async (body: unknown) => (await call("POST", `/sandboxes/${sandboxID}/refreshes`, body)).status;
  await expectEnd(sandboxID, 15, async () => expect(await refresh({})).toBe(204));
  await expectEnd(sandboxID, 3600, async () => expect(await refresh({ duration: 3600 })).toBe(204));
  const endAt = await end(sandboxID);
  expect(await refresh({ duration: 0 })).toBe(204);
  expect(await refresh({ duration: 20 })).toBe(204);
  expect(await end(sandboxID)).toBe(endAt);
  expect(await refresh({ duration: 3601 })).toBe(400);
  expect(await refresh({ duration: -1 })).toBe(400);
  await call("DELETE", `/sandboxes/${sandboxID}`);
  expect(await refresh({})).toBe(404);
});

test("an id may carry the client's id after a dash, and malformed ids are refused", async () => {
  const { sandboxID } = await create({});
  const { body } = await call("GET", `/sandboxes/${sandboxID}-6532622b`);
  expect(body).toMatchObject({ sandboxID });
  for (const id of ["UPPER", "a_b", "a-b-c", "a%20b"]) expect((await call("GET", `/sandboxes/${id}`)).status).toBe(400);
  expect((await call("GET", "/sandboxes/unknown")).body).toEqual({ code: 404, message: expect.any(String) });
  await call("DELETE", `/sandboxes/${sandboxID}`);
});
