/** Administration through its routes: admin tokens, teams, users, this machine as a node, and the audit log. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { ADMIN_TOKENS_MAX, createAccessToken, createAdminToken, revokeAdminToken } from "../access/keys.ts";
import { AUDIT_WRITTEN_EVERY_MS } from "../audit/audit.ts";
import { BuildCalls } from "../testing/build-calls.ts";
import { ControlFixture, type Reply } from "../testing/control-fixture.ts";

let fixture: ControlFixture;
let admin: string;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  admin = (await createAdminToken(fixture, { name: "test" })).secret;
});
afterEach(() => fixture[Symbol.asyncDispose]());

// biome-ignore lint/suspicious/noExplicitAny: the fixture has checked the body against the route's schema
type Answer = Omit<Reply, "body"> & { body: any };
const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  fixture.call(method, path, body, { "X-API-Key": "", "X-Admin-Token": admin, ...headers });
const asTeam = (teamID: string) => ({ "X-Team-ID": teamID });

/** As the admin socket passes them on. */
async function asRoot(method: string, path: string): Promise<Response> {
  const client = { address: "", fromTrustedProxy: false, isRoot: true };
  return await fixture.control.handle(new Request(`http://localhost${path}`, { method }), client);
}

async function newTeam(slug: string): Promise<{ teamID: string; key: string }> {
  const { teamID } = (await call("POST", "/admin/teams", { slug })).body;
  const { key } = (await call("POST", `/admin/teams/${teamID}/api-keys`, { name: "ci" })).body;
  return { teamID, key };
}

describe("an admin token", () => {
  test("opens the routes of administrators until it is revoked, and is stored only as a hash", async () => {
    expect((await call("GET", "/admin/teams")).body).toMatchObject([{ slug: "default", state: "active" }]);
    const [token] = await fixture.store.keys.adminTokens();
    expect(JSON.stringify(token)).not.toContain(admin.slice("sandlot_admin_".length));
    await revokeAdminToken(fixture, token?.id ?? "");
    expect((await call("GET", "/admin/teams")).status).toBe(401);
    expect((await asRoot("GET", "/admin/teams")).status).toBe(200);
  });

  test.each([
    [{}, "X-Admin-Token header is missing"],
    [{ "X-Admin-Token": "e2b_0123" }, "admin tokens start with sandlot_admin_"],
    [{ "X-Admin-Token": `sandlot_admin_${"0".repeat(40)}` }, "not valid"],
    [{ "X-Admin-Token": "sandlot_admin_xyz" }, "not valid"],
  ])("%j is a 401 with the reason", async (headers, reason) => {
    const { status, body } = await fixture.call("GET", "/nodes", undefined, headers as Record<string, string>);
    expect([status, body.message]).toEqual([401, expect.stringContaining(reason)]);
  });

  test("a 101st is rejected", async () => {
    for (let nth = 1; nth < ADMIN_TOKENS_MAX; nth++) await createAdminToken(fixture, { name: "more" });
    await expect(createAdminToken(fixture, { name: "one too many" })).rejects.toMatchObject({ status: 429 });
  });

  test("acts for any team that is named, without its budget", async () => {
    const { teamID, key } = await newTeam("red");
    await fixture.store.people.setLimits(teamID, { reads: 1, changes: 1 });
    for (let nth = 0; nth < 30; nth++)
      expect((await call("GET", "/v2/sandboxes", undefined, asTeam(teamID))).status).toBe(200);
    const made = await call("POST", "/sandboxes", { templateID: "base" }, asTeam(teamID));
    expect(made.status).toBe(201);
    const seen = await fixture.call("GET", `/sandboxes/${made.body.sandboxID}`, undefined, { "X-API-Key": key });
    expect(seen.status).toBe(200);
    expect((await call("GET", "/api-keys", undefined, asTeam(teamID))).body).toHaveLength(1);
    expect((await call("GET", "/api-keys")).status).toBe(401);
    expect((await call("GET", "/v2/sandboxes", undefined, asTeam(fixture.ids.uuid()))).status).toBe(404);
  });
});

test("a user's access token with X-Team-ID reads templates and creates sandboxes of that team only", async () => {
  const { teamID } = await newTeam("red");
  const { userID } = (await call("POST", "/admin/users", { email: "Ada@example.com", teamIDs: [teamID] })).body;
  const { secret } = await createAccessToken(fixture, { userId: userID, name: "cli" });
  const as = (id: string) => ({ "X-API-Key": "", Authorization: `Bearer ${secret}`, "X-Team-ID": id });
  expect((await fixture.call("GET", "/templates", undefined, as(teamID))).status).toBe(200);
  expect((await fixture.call("GET", "/v2/templates", undefined, as(teamID))).status).toBe(200);
  expect((await fixture.call("POST", "/v2/sandboxes", { templateID: "base" }, as(teamID))).status).toBe(201);
  for (const other of [fixture.firstRun.teamId, fixture.ids.uuid(), "x"]) {
    expect((await fixture.call("GET", "/templates", undefined, as(other))).status).toBe(403);
  }
});

describe("teams and users", () => {
  test("are created, listed, changed and connected", async () => {
    const { teamID, key } = await newTeam("red");
    expect((await call("PATCH", `/admin/teams/${teamID}`, { name: "Pandas" })).body.name).toBe("Pandas");
    const ada = (await call("POST", "/admin/users", { email: "Ada@Example.com" })).body;
    expect(ada).toMatchObject({ email: "ada@example.com", teams: [] });
    expect((await call("POST", `/admin/teams/${teamID}/members`, { userID: ada.userID })).status).toBe(204);
    await call("POST", `/admin/teams/${fixture.firstRun.teamId}/members`, { userID: ada.userID });
    const member = `/admin/teams/${fixture.firstRun.teamId}/members/${ada.userID}`;
    expect((await call("PATCH", member, { isDefault: true })).status).toBe(204);
    const [listed] = (await call("GET", "/admin/users")).body;
    expect(listed.teams).toMatchObject([
      { slug: "default", isDefault: true },
      { slug: "red", isDefault: false },
    ]);
    expect((await call("DELETE", member)).body).toEqual({ revokedKeys: 0, validKeys: 0 });
    const teams = (await call("GET", "/admin/teams")).body;
    expect(teams).toMatchObject([
      { slug: "default" },
      { slug: "red", apiKeyCount: 1, members: [{ email: ada.email }] },
    ]);
    expect((await call("DELETE", `/admin/users/${ada.userID}?revokeKeys=true`)).status).toBe(200);
    const keyId = (await fixture.store.keys.apiKeysOf(teamID))[0]?.id;
    expect((await call("DELETE", `/admin/teams/${teamID}/api-keys/${keyId}`)).status).toBe(204);
    expect((await fixture.call("GET", "/sandboxes", undefined, { "X-API-Key": key })).status).toBe(401);
  });

  test.each([
    ["POST", "/admin/teams", { slug: "default" }, 409, 'already a team "default"'],
    ["POST", "/admin/teams", { slug: "Red" }, 400, "slug must consist of a-z"],
    ["PATCH", "/admin/teams/x", { name: "y" }, 404, 'no team with the id "x"'],
    ["POST", "/admin/users", { email: "ada" }, 400, "must be an email address"],
    ["POST", "/admin/users", { email: "operator@localhost" }, 409, "already a user"],
    ["DELETE", "/admin/users/x", undefined, 404, 'no user with the id "x"'],
  ])("%s %s %j is refused", async (method, path, body, status, message) => {
    const reply = await call(method, path, body);
    expect([reply.status, reply.body.message]).toEqual([status, expect.stringContaining(message)]);
  });
});

describe("sandboxes and builds of all teams", () => {
  test("are counted, found and killed", async () => {
    const { teamID, key } = await newTeam("red");
    const own = await fixture.create();
    const [running, resting] = [1, 2].map(() =>
      fixture.call("POST", "/sandboxes", { templateID: "base", timeout: 600 }, { "X-API-Key": key }),
    );
    const ids = [(await running)?.body.sandboxID, (await resting)?.body.sandboxID];
    await fixture.call("POST", `/sandboxes/${ids[1]}/pause`, undefined, { "X-API-Key": key });
    expect((await call("GET", "/admin/sandboxes/running-counts")).body).toEqual({
      [fixture.firstRun.teamId]: 1,
      [teamID]: 1,
    });
    expect((await call("GET", `/admin/sandboxes/${ids[1]}`)).body).toEqual({
      sandboxID: ids[1],
      teamID,
      state: "paused",
    });
    const killed = await call("POST", `/admin/teams/${teamID}/sandboxes/kill`);
    expect(killed.body).toEqual({ killedCount: 2, failedCount: 0 });
    expect((await call("GET", `/admin/sandboxes/${ids[0]}`)).status).toBe(404);
    expect((await fixture.call("GET", `/sandboxes/${own}`)).status).toBe(200);
  });

  test("builds of a team are cancelled, started or not", async () => {
    const build = await new BuildCalls(fixture).request("web");
    const cancelled = await call("POST", `/admin/teams/${fixture.firstRun.teamId}/builds/cancel`);
    expect(cancelled.body).toEqual({ cancelledCount: 1, failedCount: 0 });
    expect((await fixture.store.builds.byId(build.buildID))?.status).toBe("error");
  });
});

describe("the node", () => {
  test("is this machine, with its load", async () => {
    await fixture.create();
    const [node] = (await call("GET", "/nodes")).body;
    expect(node).toMatchObject({ id: "local", status: "ready", sandboxCount: 1, createSuccesses: 1, createFails: 0 });
    expect(node.metrics).toMatchObject({ allocatedCPU: 2, allocatedMemoryBytes: 2 ** 30, cpuCount: 2 });
    expect((await call("GET", "/nodes/local")).body).toEqual(node);
    expect((await call("GET", "/nodes/other")).status).toBe(404);
    expect((await call("POST", "/nodes/local", { status: "standby" })).status).toBe(409);
  });

  test("is in its own cluster alone", async () => {
    const [{ clusterID }] = (await call("GET", "/nodes")).body;
    const other = fixture.ids.uuid();
    for (const [id, reply, changed] of [
      [clusterID, 200, 204],
      [other, 404, 404],
      ["other", 400, 400],
    ]) {
      expect((await call("GET", `/nodes?clusterID=${id}`)).status).toBe(reply);
      expect((await call("GET", `/nodes/local?clusterID=${id}`)).status).toBe(reply);
      expect((await call("POST", "/nodes/local", { status: "ready", clusterID: id })).status).toBe(changed);
    }
    expect((await call("GET", `/nodes?clusterID=${other}`)).body.message).toContain(other);
  });

  test("starts nothing while it is drained, also after a restart", async () => {
    const id = await fixture.create({ timeout: 3_600 });
    const resting = await fixture.create({ timeout: 3_600 });
    await fixture.call("POST", `/sandboxes/${resting}/pause`);
    expect((await call("POST", "/nodes/local", { status: "draining" })).status).toBe(204);
    await fixture.restart();
    expect((await call("GET", "/nodes/local")).body.status).toBe("draining");
    const refused = await fixture.call("POST", "/sandboxes", { templateID: "base" });
    expect([refused.status, refused.body.message]).toEqual([503, expect.stringContaining("drains this machine")]);
    for (const path of [`/sandboxes/${resting}/resume`, `/sandboxes/${resting}/connect`]) {
      expect((await fixture.call("POST", path, { timeout: 60 })).status).toBe(503);
    }
    expect((await fixture.call("POST", `/sandboxes/${id}/connect`, { timeout: 60 })).status).toBe(200);
    expect((await fixture.call("POST", `/sandboxes/${id}/pause`)).status).toBe(204);
    expect((await call("POST", "/nodes/local", { status: "ready" })).status).toBe(204);
    expect((await fixture.call("POST", `/sandboxes/${id}/resume`, { timeout: 60 })).status).toBe(201);
  });
});

describe("the audit log", () => {
  const entries = async (query = "") => {
    await fixture.passBy(AUDIT_WRITTEN_EVERY_MS);
    return (await call("GET", `/admin/audit${query}`)).body;
  };

  test("names actor, action, object, team and result of each change, newest first", async () => {
    const id = await fixture.create();
    await fixture.call("POST", `/sandboxes/${id}/pause`, undefined, { "X-Request-Id": "0123456789abcdef" });
    await fixture.call("DELETE", "/sandboxes/i0");
    await fixture.call("GET", "/sandboxes");
    await fixture.call("DELETE", "/sandboxes/i0", undefined, { "X-API-Key": "e2b_0" });
    const { teamID } = await newTeam("red");
    await asRoot("POST", `/admin/teams/${teamID}/sandboxes/kill`);
    const [key] = await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId);
    const [token] = await fixture.store.keys.adminTokens();
    const [made] = await fixture.store.keys.apiKeysOf(teamID);
    const byKey = { actor: { kind: "key", id: key?.id }, teamID: fixture.firstRun.teamId };
    const byAdmin = { actor: { kind: "admin", id: token?.id }, teamID };
    const listed = await entries();
    const expected = [
      { ...byKey, action: "POST /sandboxes", object: id, status: 201 },
      { ...byKey, action: "POST /sandboxes/{sandboxID}/pause", object: id, status: 204, requestID: "0123456789abcdef" },
      { ...byKey, action: "DELETE /sandboxes/{sandboxID}", object: "i0", status: 404 },
      { ...byAdmin, action: "POST /admin/teams", object: "team red", status: 201 },
      { ...byAdmin, action: "POST /admin/teams/{teamID}/api-keys", object: made?.id, status: 201 },
      {
        actor: { kind: "root" },
        teamID,
        action: "POST /admin/teams/{teamID}/sandboxes/kill",
        object: teamID,
        status: 200,
      },
    ];
    for (const each of expected) expect(listed).toContainEqual(expect.objectContaining(each));
    expect(listed).toHaveLength(expected.length);
    expect(listed.map(({ timestamp }: { timestamp: string }) => timestamp)).toEqual(
      listed
        .map(({ timestamp }: { timestamp: string }) => timestamp)
        .toSorted()
        .toReversed(),
    );
  });

  test("has sandboxes that root ends or pauses on the machine", async () => {
    const id = await fixture.create();
    await fixture.control.operator.pause(id);
    await fixture.control.operator.kill(id);
    const about = (await entries(`?object=${id}`)).filter(
      ({ actor }: { actor: { kind: string } }) => actor.kind === "root",
    );
    expect(about.map(({ action }: { action: string }) => action).toSorted()).toEqual([
      "sandlot top, kill",
      "sandlot top, pause",
    ]);
  });

  test("can be filtered and read page by page", async () => {
    for (let nth = 0; nth < 5; nth++) await fixture.call("DELETE", `/sandboxes/i${nth}`);
    const all = await entries();
    expect(all).toHaveLength(5);
    const first = await call("GET", "/admin/audit?limit=3");
    const rest = await call("GET", `/admin/audit?limit=3&nextToken=${first.headers.get("x-next-token")}`);
    expect([...first.body, ...rest.body]).toEqual(all);
    expect(rest.headers.get("x-next-token")).toBeNull();
    expect(await entries("?object=i3")).toMatchObject([{ object: "i3" }]);
    expect(await entries(`?teamID=${fixture.firstRun.teamId}`)).toHaveLength(5);
    expect(await entries(`?teamID=${fixture.ids.uuid()}`)).toEqual([]);
    expect(await entries(`?actorID=${all[0].actor.id}&action=DELETE%20%2Fsandboxes%2F%7BsandboxID%7D`)).toHaveLength(5);
    expect(await entries("?start=2027-01-16T00:00:00Z")).toEqual([]);
    expect(await entries("?end=2027-01-16T00:00:00Z")).toHaveLength(5);
    expect((await call("GET", "/admin/audit?nextToken=x")).status).toBe(400);
  });

  test("holds no secret, and bounds the names that clients wrote", async () => {
    const { key } = await newTeam("red");
    await fixture.call("DELETE", `/sandboxes/${key}`);
    await fixture.call("DELETE", `/sandboxes/${"x".repeat(2_000)}`);
    const listed = await entries();
    expect(JSON.stringify(listed)).not.toContain(key.slice("e2b_".length));
    expect(Math.max(...listed.map(({ object = "" }: { object?: string }) => object.length))).toBe(256);
  });

  test("takes no text of a path for the id of a team, nor prints it", async () => {
    const { teamID } = await newTeam("red");
    const hostile = `\x1b]0;title\x07${"x".repeat(2_000)}`;
    for (const id of [hostile, teamID.toUpperCase()]) {
      await call("DELETE", `/admin/teams/${encodeURIComponent(id)}/members/x`);
    }
    const about = (await entries()).filter(({ object }: { object?: string }) => object === "x");
    expect(about.map(({ teamID }: { teamID?: string }) => teamID).toSorted()).toEqual([teamID, undefined]);
  });

  test("has changes of access at once, and all others after a stop", async () => {
    await fixture.call("DELETE", "/sandboxes/i0");
    await newTeam("red");
    const actions = async () =>
      (await fixture.store.auditLog.list({}, undefined, 10)).map(({ action }) => action).toSorted();
    expect(await actions()).toEqual(["POST /admin/teams", "POST /admin/teams/{teamID}/api-keys"]);
    await fixture.restart();
    expect(await actions()).toContain("DELETE /sandboxes/{sandboxID}");
  });
});
