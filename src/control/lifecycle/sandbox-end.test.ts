/** What moves the end time of a running sandbox, and what kills it. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import { ControlFixture } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let id: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({ timeout: 60, secure: true });
  await fixture.advance(10_000);
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** The sandbox ends at second 60; the clock is at second 10. */
describe("the end becomes", () => {
  test.each([
    ["/sandboxes/ID/timeout", { timeout: 20 }, 204, 30],
    ["/sandboxes/ID/timeout", { timeout: 100 }, 204, 110],
    ["/sandboxes/ID/timeout", { timeout: 2_147_483_647 }, 204, 2_147_483_657],
    ["/sandboxes/ID/connect", { timeout: 20 }, 200, 30],
    ["/sandboxes/ID/connect", { timeout: 100 }, 200, 110],
    ["/v2/sandboxes/ID/connect", { timeout: 20 }, 200, 60],
    ["/v2/sandboxes/ID/connect", { timeout: 100 }, 200, 110],
    ["/v2/sandboxes/ID/connect", {}, 200, 310],
    ["/v2/sandboxes/ID/connect", undefined, 200, 310],
    ["/sandboxes/ID/refreshes", { duration: 100 }, 204, 110],
    ["/sandboxes/ID/refreshes", { duration: 3600 }, 204, 3610],
    ["/sandboxes/ID/refreshes", { duration: 5 }, 204, 60],
    ["/sandboxes/ID/refreshes", { duration: 0 }, 204, 60],
    ["/sandboxes/ID/refreshes", {}, 204, 60],
    ["/sandboxes/ID/refreshes", undefined, 204, 60],
  ])("%s %j → %p, second %p", async (path, body, status, end) => {
    const reply = await fixture.call("POST", path.replace("ID", id), body);
    expect(reply.status).toBe(status);
    expect(await fixture.endOf(id)).toBe(end);
  });

  test("a refresh without a duration means 15 seconds, one below that is used as given", async () => {
    await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 1 });
    await fixture.call("POST", `/sandboxes/${id}/refreshes`, { duration: 3 });
    expect(await fixture.endOf(id)).toBe(13);
    await fixture.call("POST", `/sandboxes/${id}/refreshes`);
    expect(await fixture.endOf(id)).toBe(25);
  });

  test.each([
    ["/sandboxes/ID/timeout", undefined],
    ["/sandboxes/ID/timeout", {}],
    ["/sandboxes/ID/timeout", { timeout: -1 }],
    ["/sandboxes/ID/timeout", { timeout: 2 ** 31 }],
    ["/sandboxes/ID/timeout", { timeout: null }],
    ["/sandboxes/ID/connect", undefined],
    ["/sandboxes/ID/connect", {}],
    ["/v2/sandboxes/ID/connect", { timeout: 0 }],
    ["/sandboxes/ID/refreshes", { duration: 3601 }],
    ["/sandboxes/ID/refreshes", { duration: -1 }],
    ["/sandboxes/ID/refreshes", { duration: 1.5 }],
    ["/sandboxes/ID/refreshes", []],
  ])("%s %j is refused and changes nothing", async (path, body) => {
    expect((await fixture.call("POST", path.replace("ID", id), body)).status).toBe(400);
    expect(await fixture.endOf(id)).toBe(60);
  });

  test("timeout 0 and connect with 0 end it at once", async () => {
    expect((await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 0 })).status).toBe(204);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    await fixture.advance(0);
    expect(fixture.host.running).toEqual([]);
    const second = await fixture.create();
    expect((await fixture.call("POST", `/sandboxes/${second}/connect`, { timeout: 0 })).status).toBe(200);
    await fixture.advance(0);
    expect(fixture.host.destroyed).toEqual([id, second]);
  });

  test("connect returns the same as create, without a new token", async () => {
    const { envdAccessToken } = (await fixture.call("GET", `/sandboxes/${id}`)).body;
    const { body } = await fixture.call("POST", `/v2/sandboxes/${id}/connect`, {});
    expect(body).toMatchObject({
      sandboxID: id,
      envdAccessToken,
      domain: null,
      trafficAccessToken: null,
      alias: "base",
    });
  });

  test("the id may carry the client id behind a dash", async () => {
    expect((await fixture.call("GET", `/sandboxes/${id}-6532622b`)).body.sandboxID).toBe(id);
    expect((await fixture.call("POST", `/sandboxes/${id}-6532622b/timeout`, { timeout: 5 })).status).toBe(204);
    expect((await fixture.call("DELETE", `/sandboxes/${id}-6532622b`)).status).toBe(204);
  });

  test.each(["ABC", "i-a-b", "i%2Fx", "i_x", "-x", "i%00", "%C3%A4", "i%ZZ"])("id %p is a 400", async (written) => {
    expect((await fixture.call("GET", `/sandboxes/${written}`)).status).toBe(400);
    expect((await fixture.call("DELETE", `/sandboxes/${written}`)).status).toBe(400);
    expect((await fixture.call("POST", `/sandboxes/${written}/timeout`, { timeout: 1 })).status).toBe(400);
  });
});

describe("kill", () => {
  test("is 204, leaves nothing, and is 404 afterwards", async () => {
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
    expect(fixture.host.running).toEqual([]);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(404);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
  });

  test("of a paused sandbox waits for the disk, or a crash of the machine would bring it back", async () => {
    const { kill } = fixture.store.sandboxes;
    const waited: string[] = [];
    fixture.store.sandboxes.kill = (run) => {
      waited.push(run.id);
      return kill(run);
    };
    const paused = await fixture.create();
    expect((await fixture.call("POST", `/sandboxes/${paused}/pause`)).status).toBe(204);
    for (const each of [id, paused]) expect((await fixture.call("DELETE", `/sandboxes/${each}`)).status).toBe(204);
    expect(waited).toEqual([paused]);
    expect([fixture.host.running, fixture.host.checkpoints]).toEqual([[], []]);
  });

  test("in progress: 204 for a second kill, 404 for a reader, 409 for a change, no route", async () => {
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    fixture.host.beforeDestroy = () => {
      begun.resolve();
      return held.promise;
    };
    expect(fixture.find(id)).toMatchObject({ endpoint: { host: "127.0.0.1" } });
    const first = fixture.call("DELETE", `/sandboxes/${id}`);
    await begun.promise;
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(204);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect((await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 9 })).status).toBe(409);
    expect((await fixture.call("POST", `/v2/sandboxes/${id}/connect`)).status).toBe(409);
    expect<unknown>((await fixture.call("GET", "/sandboxes")).body).toEqual([]);
    expect(fixture.find(id)).toBeUndefined();
    // Not even when a host were slow to forget it.
    const endpoint = { host: "127.0.0.1", runtimePort: 49_983, ownPorts: true };
    fixture.host.listener({ kind: "reachable", id, endpoint });
    expect(fixture.find(id)).toBeUndefined();
    held.resolve();
    expect((await first).status).toBe(204);
    expect(fixture.host.destroyed).toEqual([id]);
  });

  test("many at once and an expiry at the same moment destroy the sandbox once", async () => {
    await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 1 });
    const kills = [];
    const expiry = fixture.advance(1_000);
    for (let nth = 0; nth < 10; nth++) kills.push(fixture.call("DELETE", `/sandboxes/${id}`));
    const statuses = (await Promise.all(kills)).map((reply) => reply.status);
    await expiry;
    expect(fixture.host.destroyed).toEqual([id]);
    expect(statuses.every((status) => status === 204 || status === 404)).toBe(true);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
  });

  test("reports a failed destroy and retries it until it works", async () => {
    let failures = 3;
    fixture.host.beforeDestroy = async () => {
      if (failures-- > 0) throw new Error("mount is busy");
    };
    const reply = await fixture.call("DELETE", `/sandboxes/${id}`);
    expect(reply.status).toBe(500);
    expect(reply.body.message).not.toContain("mount");
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    await fixture.advance(1_000 + 2_000 - 1);
    expect(fixture.host.destroyed).toHaveLength(2);
    await fixture.advance(1 + 4_000);
    expect(fixture.host.destroyed).toHaveLength(4);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.logLines.filter((line) => line.includes("mount is busy")).length).toBeGreaterThanOrEqual(3);
  });

  test("is not reported as complete before the sandbox is gone", async () => {
    let runsOn = true;
    fixture.host.beforeDestroy = async () => {
      if (runsOn) throw new Fault(503, "something in it still runs");
    };
    for (const attempt of ["first", "second"]) {
      const reply = await fixture.call("DELETE", `/sandboxes/${id}`);
      expect([attempt, reply.status]).toEqual([attempt, 503]);
      expect(reply.body.message).toContain("not all of it has ended yet");
    }
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    runsOn = false;
    await fixture.advance(1_000);
    expect((await fixture.call("DELETE", `/sandboxes/${id}`)).status).toBe(404);
  });

  test("a sandbox that the host lost is gone", async () => {
    fixture.host.lose(id);
    await fixture.control.settled();
    expect((await fixture.call("GET", `/sandboxes/${id}`)).status).toBe(404);
    expect(await fixture.store.sandboxes.byId(id)).toBeUndefined();
    expect(fixture.find(id)).toBeUndefined();
  });
});

test("another team cannot see or change the sandbox", async () => {
  const stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
  const attempts = [
    await fixture.call("GET", `/sandboxes/${id}`, undefined, stranger),
    await fixture.call("DELETE", `/sandboxes/${id}`, undefined, stranger),
    await fixture.call("POST", `/sandboxes/${id}/timeout`, { timeout: 1 }, stranger),
    await fixture.call("POST", `/sandboxes/${id}/refreshes`, {}, stranger),
    await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 1 }, stranger),
    await fixture.call("POST", `/v2/sandboxes/${id}/connect`, {}, stranger),
  ];
  const unknown = await fixture.call("GET", `/sandboxes/i00000000000000000000`);
  for (const { status, body } of attempts) {
    expect(status).toBe(404);
    expect(body.message.replace(id, "ID")).toBe(unknown.body.message.replace("i00000000000000000000", "ID"));
  }
  for (const path of ["/sandboxes", "/v2/sandboxes"]) {
    expect<unknown>((await fixture.call("GET", path, undefined, stranger)).body).toEqual([]);
  }
  expect((await fixture.call("GET", "/v2/sandboxes", undefined, stranger)).headers.get("x-total-running")).toBe("0");
  expect(await fixture.endOf(id)).toBe(60);
});
