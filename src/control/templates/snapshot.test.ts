/** Snapshots and forks: copies of a sandbox that keeps running. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Fault } from "../../contract/fault.ts";
import type { ForkAnswer } from "../../contract/management/fork.ts";
import type { Snapshot } from "../../contract/management/snapshot.ts";
import { FORKS_AT_ONCE } from "../lifecycle/transitions/creation.ts";
import { ControlFixture } from "../testing/control-fixture.ts";
import { SNAPSHOTS_PER_TEAM_MAX } from "./snapshots.ts";

let fixture: ControlFixture;
let id: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  id = await fixture.create({
    timeout: 600,
    secure: true,
    metadata: { a: "b" },
    envVars: { A: "b", C: "d" },
    allow_internet_access: false,
    autoPause: true,
    autoResume: { enabled: true },
  });
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function snapshot(body: Record<string, unknown> = {}, of = id): Promise<Snapshot> {
  const reply = await fixture.call("POST", `/sandboxes/${of}/snapshots`, body);
  expect(reply.status).toBe(201);
  return reply.body;
}

async function list(query = ""): Promise<string[]> {
  const { body } = await fixture.call("GET", `/snapshots${query}`);
  return (body as unknown as Snapshot[]).map(({ snapshotID }) => snapshotID);
}

async function fork(body?: unknown): Promise<ForkAnswer> {
  const reply = await fixture.call("POST", `/sandboxes/${id}/fork`, body);
  expect(reply.status).toBe(201);
  return reply.body as unknown as ForkAnswer;
}

describe("a snapshot", () => {
  test("without a name is known by its id; the sandbox keeps its end", async () => {
    const made = await snapshot();
    expect(made).toEqual({ snapshotID: expect.stringMatching(/^[a-z0-9]{20}:default$/), names: [] });
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("running");
    expect(await fixture.endOf(id)).toBe(600);
    expect(await list()).toEqual([made.snapshotID]);
    expect(fixture.eventsOf(id)).toEqual(["created", "checkpointed"]);
  });

  test.each([
    ["mine", "default/mine:default"],
    ["mine:v1", "default/mine:v1"],
    ["default/mine:v1", "default/mine:v1"],
    ["MINE:V1", "default/mine:v1"],
    ["base", "default/base:default"],
  ])("named %p is %p", async (name, snapshotID) => {
    const [alias] = snapshotID.split(":");
    expect(await snapshot({ name })).toEqual({ snapshotID, names: [alias ?? ""] });
    expect((await fixture.call("POST", "/sandboxes", { templateID: snapshotID })).status).toBe(201);
  });

  test.each([
    [{ name: "other/mine" }, 400],
    [{ name: "a/b/c" }, 400],
    [{ name: "" }, 400],
    [{ name: "x".repeat(129) }, 400],
    [{ name: "mine:5a4d1075-ba5e-4000-8000-000000000001" }, 400],
    [{ name: "basetemplate00000000" }, 400],
    [{ memory: 1 }, 400],
    [undefined, 400],
  ])("%j is rejected with %p, without freezing the sandbox", async (body, status) => {
    let stops = 0;
    fixture.host.beforeSnapshot = async () => void stops++;
    expect((await fixture.call("POST", `/sandboxes/${id}/snapshots`, body)).status).toBe(status);
    expect([stops, fixture.host.checkpoints]).toEqual([0, []]);
  });

  test("creates sandboxes by its id, with or without tag, with its variables and theirs", async () => {
    const { snapshotID } = await snapshot();
    for (const templateID of [snapshotID, snapshotID.replace(":default", "")]) {
      const reply = await fixture.call("POST", "/v2/sandboxes", {
        templateID,
        envVars: { C: "own" },
        metadata: { x: "y" },
      });
      expect(reply.status).toBe(201);
      expect(reply.body).toMatchObject({ templateID: snapshotID.replace(":default", ""), alias: "" });
      expect(fixture.host.contentsOf(reply.body.sandboxID)).toEqual({ boot: 1, disk: 1 });
      expect(fixture.host.requestOf(reply.body.sandboxID)).toMatchObject({
        envVars: { A: "b", C: "own" },
        egress: "open",
        accessTokens: [reply.body.envdAccessToken],
      });
    }
  });

  test("without memory is booted", async () => {
    const requests: boolean[] = [];
    fixture.host.beforeSnapshot = async (_id, _name, { memory }) => void requests.push(memory);
    const { snapshotID } = await snapshot({ memory: false });
    expect(requests).toEqual([false]);
    const { sandboxID } = (await fixture.call("POST", "/sandboxes", { templateID: snapshotID })).body;
    expect(fixture.host.contentsOf(sandboxID)).toEqual({ boot: 2, disk: 1 });
  });

  test("under an existing name replaces it; other tags are unaffected", async () => {
    await snapshot({ name: "mine:v1" });
    const other = await fixture.create({ timeout: 600 });
    await snapshot({ name: "mine" }, other);
    await snapshot({ name: "mine:v2" }, other);
    await fixture.advance(1);
    await snapshot({ name: "mine:v2" });
    const contents = async (templateID: string) =>
      fixture.host.contentsOf((await fixture.call("POST", "/sandboxes", { templateID })).body.sandboxID)?.boot;
    expect(await contents("mine:v1")).toBe(1);
    expect(await contents("mine")).toBe(2);
    expect(await contents("default/mine:v2")).toBe(1);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "mine:v3" })).status).toBe(404);
    expect(await list()).toEqual(["default/mine:v2", "default/mine:default", "default/mine:v1"]);
    expect(await list("?name=mine:v1")).toEqual(["default/mine:v1"]);
    expect(await list("?name=default/mine:default")).toEqual(["default/mine:default"]);
    expect(await list("?name=mine")).toHaveLength(3);
    expect(await list("?name=unknown")).toEqual([]);
    expect(await list(`?sandboxID=${other}`)).toEqual(["default/mine:default"]);
  });

  test("with a tag only has no default", async () => {
    await snapshot({ name: "mine:v1" });
    const reply = await fixture.call("POST", "/sandboxes", { templateID: "mine" });
    expect([reply.status, reply.body.message]).toEqual([404, expect.stringContaining('tag "default"')]);
  });

  test("is listed page by page, newest first, to its own team only", async () => {
    const made: string[] = [];
    for (let nth = 0; nth < 5; nth++) {
      made.unshift((await snapshot(nth % 2 ? { name: `n${nth}` } : {})).snapshotID);
      await fixture.advance(1);
    }
    const seen: string[] = [];
    let token: string | null = "";
    while (token !== null) {
      const query: string = token === "" ? "" : `&nextToken=${token}`;
      const reply = await fixture.call("GET", `/snapshots?limit=2${query}`);
      seen.push(...(reply.body as unknown as Snapshot[]).map(({ snapshotID }) => snapshotID));
      token = reply.headers.get("x-next-token");
    }
    expect(seen).toEqual(made);
    expect((await fixture.call("GET", "/snapshots?nextToken=rubbish")).status).toBe(400);
    const stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
    expect<unknown>((await fixture.call("GET", "/snapshots", undefined, stranger)).body).toEqual([]);
    const foreign = await fixture.call("POST", "/sandboxes", { templateID: made[0] }, stranger);
    expect(foreign.status).toBe(404);
    expect((await fixture.call("DELETE", `/templates/${made.at(-1)}`, undefined, stranger)).status).toBe(404);
  });

  test("that cannot be made leaves the sandbox running and nothing else", async () => {
    fixture.host.beforeSnapshot = async () => {
      throw new Fault(422, "process 7 holds an io_uring");
    };
    const reply = await fixture.call("POST", `/sandboxes/${id}/snapshots`, { name: "mine" });
    expect([reply.status, reply.body.message]).toEqual([422, expect.stringContaining("io_uring")]);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("running");
    expect([await list(), fixture.host.checkpoints]).toEqual([[], []]);
  });

  test("that cannot be recorded is removed", async () => {
    fixture.store.transaction = async () => {
      throw new Error("disk full");
    };
    expect((await fixture.call("POST", `/sandboxes/${id}/snapshots`, {})).status).toBe(500);
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toEqual([]);
  });

  test("above the team's limit is rejected before the sandbox is frozen; a deletion frees a place", async () => {
    await snapshot({ name: "crowd" });
    await snapshot({ name: "last" });
    // Clients see each tag of a template.
    const { templateID: templateId } = (await fixture.call("GET", "/templates/aliases/crowd")).body as {
      templateID: string;
    };
    const build = await fixture.store.builds.tagged(templateId, "default");
    for (let nth = 2; nth < SNAPSHOTS_PER_TEAM_MAX; nth++) {
      await fixture.store.builds.tag(templateId, `t${nth}`, build?.id ?? "", fixture.clock.now());
    }
    const ask = (body: unknown) => fixture.call("POST", `/sandboxes/${id}/snapshots`, body);
    const kept = [...fixture.host.checkpoints];
    for (const body of [{}, { name: "another" }]) {
      const refused = await ask(body);
      expect([refused.status, refused.body.message]).toEqual([429, expect.stringContaining("at most 1000 snapshots")]);
      expect(refused.headers.has("retry-after")).toBe(false);
    }
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toEqual(kept);
    expect(fixture.eventsOf(id).filter((event) => event === "checkpointed")).toHaveLength(2);
    // A replacement does not increase the number.
    expect((await ask({ name: "last" })).status).toBe(201);
    expect((await fixture.call("DELETE", "/templates/last")).status).toBe(204);
    expect((await ask({})).status).toBe(201);
  });

  test("in progress: the sandbox reads as running, and cannot be resumed", async () => {
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
    await begun;
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("running");
    expect((await fixture.call("GET", "/sandboxes")).body).toHaveLength(1);
    expect((await fixture.call("POST", `/sandboxes/${id}/resume`, {})).status).toBe(409);
    finish();
    expect((await making).status).toBe(201);
  });

  test.each([
    [`/v2/sandboxes/ID/connect`, { timeout: 700 }, 200],
    [`/sandboxes/ID/timeout`, { timeout: 700 }, 204],
    [`/sandboxes/ID/refreshes`, { duration: 700 }, 204],
    [`/sandboxes/ID/snapshots`, {}, 201],
    [`/sandboxes/ID/fork`, {}, 201],
    [`/sandboxes/ID/pause`, {}, 204],
  ])("in progress: POST %s waits for it", async (path, body, status) => {
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
    await begun;
    const waiting = fixture.call("POST", path.replace("ID", id), body);
    await fixture.until(() => fixture.clock.timers === 2);
    finish();
    expect((await making).status).toBe(201);
    expect((await waiting).status).toBe(status);
    expect(fixture.host.collisions).toEqual([]);
    if ("timeout" in body) expect(await fixture.endOf(id)).toBe(700);
  });

  test("is kept if its sandbox is killed meanwhile", async () => {
    const { begun, finish } = fixture.hold("beforeSnapshot");
    const making = fixture.call("POST", `/sandboxes/${id}/snapshots`, {});
    await begun;
    const killing = fixture.call("DELETE", `/sandboxes/${id}`);
    await fixture.killWanted(id);
    finish();
    expect([(await killing).status, (await making).status]).toEqual([204, 201]);
    expect([fixture.host.running, fixture.host.checkpoints.length, fixture.host.collisions]).toEqual([[], 1, []]);
  });

  test("that ends after the sandbox's timeout: the sandbox ends right after it", async () => {
    fixture.host.beforeSnapshot = async () => fixture.clock.advance(600_000, async () => undefined);
    await snapshot();
    await fixture.advance(0);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("paused");
  });
});

describe("DELETE /templates", () => {
  test("of a snapshot frees its name and removes its checkpoints", async () => {
    await snapshot({ name: "mine" });
    await snapshot({ name: "mine:v1" });
    expect((await fixture.call("DELETE", "/templates/default%2Fmine%3Av1")).status).toBe(204);
    await fixture.control.settled();
    expect([await list(), fixture.host.checkpoints]).toEqual([[], []]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "mine" })).status).toBe(404);
    expect((await fixture.call("DELETE", "/templates/mine")).status).toBe(404);
    expect((await snapshot({ name: "mine" })).snapshotID).toBe("default/mine:default");
  });

  test("waits until no sandbox of it is running or paused", async () => {
    const { snapshotID } = await snapshot();
    const path = `/templates/${encodeURIComponent(snapshotID)}`;
    const { sandboxID } = (await fixture.call("POST", "/sandboxes", { templateID: snapshotID, timeout: 60 })).body;
    const reply = await fixture.call("DELETE", path);
    expect([reply.status, reply.body.message]).toEqual([400, expect.stringContaining("kill")]);
    await fixture.call("POST", `/sandboxes/${sandboxID}/pause`);
    expect((await fixture.call("DELETE", path)).status).toBe(400);
    await fixture.call("DELETE", `/sandboxes/${sandboxID}`);
    expect((await fixture.call("DELETE", path)).status).toBe(204);
  });

  test.each(["before", "after"])("%s the host made a sandbox of it: 204, and the create is 404", async (when) => {
    const { snapshotID } = await snapshot();
    const { host } = fixture;
    const create = host.create.bind(host);
    const remove = async () => {
      expect((await fixture.call("DELETE", `/templates/${encodeURIComponent(snapshotID)}`)).status).toBe(204);
      await fixture.control.settled();
    };
    host.create = async (request) => {
      if (when === "before") await remove();
      const made = await create(request);
      await remove();
      return made;
    };
    const reply = await fixture.call("POST", "/sandboxes", { templateID: snapshotID });
    expect([reply.status, reply.body.message]).toEqual([404, expect.stringContaining("was deleted")]);
    expect((await fixture.store.sandboxes.inState("running")).map((sandbox) => sandbox.id)).toEqual([id]);
    expect(host.destroyed).toHaveLength(when === "after" ? 1 : 0);
  });

  test("that is rejected changes nothing", async () => {
    const { snapshotID } = await snapshot({ name: "mine" });
    await fixture.call("POST", "/sandboxes", { templateID: "mine" });
    expect((await fixture.call("DELETE", "/templates/mine")).status).toBe(400);
    expect(await list()).toEqual([snapshotID]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "mine" })).status).toBe(201);
  });

  test("rejects built-in and unknown templates, another namespace, invalid names", async () => {
    const statuses = [];
    for (const reference of ["base", "basetemplate00000000", "nothing", "other%2Fbase", "a%2Fb%2Fc"]) {
      statuses.push((await fixture.call("DELETE", `/templates/${reference}`)).status);
    }
    expect(statuses).toEqual([403, 403, 404, 400, 400]);
  });

  test("retries a failed removal of a checkpoint, also after a restart", async () => {
    const { snapshotID } = await snapshot();
    fixture.host.beforeRemoveCheckpoint = async () => {
      throw new Error("busy");
    };
    expect((await fixture.call("DELETE", `/templates/${snapshotID.replace(":", "%3A")}`)).status).toBe(204);
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toHaveLength(1);
    await fixture.restart();
    expect(fixture.host.checkpoints).toEqual([]);
  });
});

describe("a fork", () => {
  test("is a copy with its own id and token, and its parent's options", async () => {
    await fixture.advance(10_000);
    const parent = (await fixture.call("GET", `/sandboxes/${id}`)).body;
    const [entry, ...more] = await fork();
    if (entry === undefined || !("sandbox" in entry)) throw new Error("no copy");
    expect(more).toEqual([]);
    const child = (await fixture.call("GET", `/sandboxes/${entry.sandbox.sandboxID}`)).body;
    expect(child).toEqual({
      ...parent,
      sandboxID: entry.sandbox.sandboxID,
      envdAccessToken: entry.sandbox.envdAccessToken,
      startedAt: new Date(fixture.clock.now()).toISOString(),
      endAt: new Date(fixture.clock.now() + 15_000).toISOString(),
    });
    expect(child.sandboxID).not.toBe(id);
    expect(child.envdAccessToken).not.toBe(parent.envdAccessToken);
    expect(fixture.host.contentsOf(child.sandboxID)).toEqual({ boot: 1, disk: 1 });
    expect(fixture.host.requestOf(child.sandboxID)).toMatchObject({
      accessTokens: [child.envdAccessToken],
      envVars: { A: "b", C: "d" },
      egress: "closed",
    });
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body).toEqual(parent);
    await fixture.control.settled();
    expect(fixture.host.checkpoints).toEqual([]);
  });

  test("of an open sandbox is open", async () => {
    id = await fixture.create({ timeout: 60 });
    const [entry] = await fork();
    expect(entry).toMatchObject({ sandbox: { envdAccessToken: null } });
  });

  test("a hundred at once stop the parent once and are made a few at a time", async () => {
    let [stops, together, most] = [0, 0, 0];
    fixture.host.beforeSnapshot = async () => void stops++;
    fixture.host.beforeCreate = async () => {
      most = Math.max(most, ++together);
      await Bun.sleep(1);
      together--;
    };
    const entries = await fork({ count: 100, timeout: 40 });
    expect([entries.length, stops, most]).toEqual([100, 1, FORKS_AT_ONCE]);
    const ids = new Set(entries.map((entry) => ("sandbox" in entry ? entry.sandbox.sandboxID : "")));
    const tokens = new Set(entries.map((entry) => ("sandbox" in entry ? entry.sandbox.envdAccessToken : "")));
    expect([ids.size, tokens.size]).toEqual([100, 100]);
    expect(fixture.host.running).toHaveLength(101);
  });

  test("with failed copies names them", async () => {
    let made = 0;
    fixture.host.beforeCreate = async () => {
      if (++made > 2) throw new Fault(503, "no room");
    };
    const entries = await fork({ count: 4 });
    expect(entries.filter((entry) => "sandbox" in entry)).toHaveLength(2);
    expect(entries.filter((entry) => "error" in entry).map((entry) => "error" in entry && entry.error)).toEqual([
      expect.objectContaining({ code: 503, message: "Failed to place sandbox: no room" }),
      expect.objectContaining({ code: 503 }),
    ]);
  });

  test.each([[{ count: 0 }], [{ count: 101 }], [{ timeout: 0 }], [{ count: 1.5 }]])("%j is refused", async (body) => {
    expect((await fixture.call("POST", `/sandboxes/${id}/fork`, body)).status).toBe(400);
  });

  test("that cannot begin leaves the parent running", async () => {
    fixture.host.beforeSnapshot = async () => {
      throw new Fault(503, "the machine is busy");
    };
    expect((await fixture.call("POST", `/sandboxes/${id}/fork`)).status).toBe(503);
    expect((await fixture.call("GET", `/sandboxes/${id}`)).body.state).toBe("running");
  });
});
