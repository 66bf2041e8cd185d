/** The deletion of a team: everything of it goes, nothing of others does, and a crash at any moment only delays it. */
import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { LONG } from "../base/testing/long.ts";
import { Fault } from "../contract/fault.ts";
import { FakeHost } from "../host/testing/fake-host.ts";
import type { Store } from "../store/store.ts";
import { enginesOfControl } from "../store/testing/engines.ts";
import { addMember, createTeam, teamNamed, userNamed } from "./access/people.ts";
import { AUDIT_WRITTEN_EVERY_MS } from "./audit/audit.ts";
import { TEAM_DELETION_RETRY_MIN_MS } from "./team-deletion.ts";
import { HOUSEKEEPING_EVERY_MS } from "./templates/housekeeping.ts";
import { ControlFixture, type Reply } from "./testing/control-fixture.ts";
import { headersOf, makeTenant, type Tenant } from "./testing/tenant.ts";

/** Waits for things that are removed in the background. */
const SOON_MS = 30 * TEAM_DELETION_RETRY_MIN_MS;
/** More than the deletion of one team has. */
const OPERATIONS_MAX = 400;
const KILLED_EVERY = LONG ? 1 : 9;

let fixture: ControlFixture;
let red: Tenant;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  red = await makeTenant(fixture, "red");
});
afterEach(() => fixture[Symbol.asyncDispose]());

const root = { address: "", fromTrustedProxy: false, isRoot: true };

async function askAsRoot(method: string, path: string): Promise<{ status: number; text: string }> {
  const response = await fixture.control.handle(new Request(`http://localhost${path}`, { method }), root);
  return { status: response.status, text: await response.text() };
}

const deletionOf = ({ names }: Tenant) => askAsRoot("DELETE", `/admin/teams/${names.teamID}`);
const isGone = async ({ names }: Tenant) => (await fixture.store.people.team(names.teamID)) === undefined;

async function untilGone(tenant: Tenant): Promise<void> {
  await fixture.until(async () => {
    await fixture.passBy(TEAM_DELETION_RETRY_MIN_MS);
    return isGone(tenant);
  });
}

/** Every row of every table but the audit log, as text. */
function everyRow(): string {
  const database = new Database(join(fixture.folder, "sandlot.db"), { readonly: true });
  try {
    const tables = database.query("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
    return tables
      .filter(({ name }) => name !== "audit_log")
      .map(({ name }) => `${name}: ${JSON.stringify(database.query(`SELECT * FROM "${name}"`).all())}`)
      .join("\n");
  } finally {
    database.close();
  }
}

/** Names, ids and texts of a tenant, without those of its user, who stays. */
function marksOf({ names, marks }: Tenant): string[] {
  const { sandboxID, restingID, templateID, alias, tag, buildID, snapshotID, hash, webhookID, volumeID } = names;
  const { volumeName, apiKeyID, teamID } = names;
  const ids = [sandboxID, restingID, templateID, alias, tag, buildID, snapshotID, hash, webhookID, volumeID];
  return [...ids, volumeName, apiKeyID, teamID, ...marks.filter((mark) => !mark.includes("@"))];
}

async function expectNothingLeft(tenant: Tenant): Promise<void> {
  await fixture.passBy(SOON_MS + HOUSEKEEPING_EVERY_MS);
  const rows = everyRow();
  expect(marksOf(tenant).filter((mark) => rows.includes(mark))).toEqual([]);
  const { host, blobs } = fixture;
  expect([host.running, host.checkpoints, [...host.volumes], [...host.layers]]).toEqual([[], [], [], []]);
  expect(host.images.names).toEqual(["base"]);
  expect(await blobs.list("")).toEqual([]);
}

function asOf(tenant: Tenant) {
  return (method: string, path: string, body?: unknown): Promise<Reply> =>
    fixture.call(method, path, body, { "X-API-Key": tenant.credentials.apiKey });
}

test("removes its sandboxes, templates, snapshots, layers, volumes, uploads, keys and records, and the row last", async () => {
  const before = everyRow();
  expect(marksOf(red).filter((mark) => !before.includes(mark))).toEqual([red.names.hash]);
  expect((await fixture.blobs.list("")).map(({ name }) => name)).toEqual([
    `files/${red.names.teamID}/${red.names.hash}`,
  ]);
  expect([...fixture.host.layers]).toEqual([red.names.teamID]);
  const { status, text } = await deletionOf(red);
  expect([status, JSON.parse(text)]).toEqual([202, expect.objectContaining({ slug: "red", state: "deleting" })]);
  await untilGone(red);
  expect((await askAsRoot("GET", "/admin/teams")).text).not.toContain("red");
  await expectNothingLeft(red);
  expect((await asOf(red)("GET", "/sandboxes")).status).toBe(401);
  expect((await fixture.store.people.userByEmail("red@example.com"))?.id).toBe(red.names.userID);
  expect(fixture.host.collisions).toEqual([]);
});

test("is in the audit log from the request to the end", async () => {
  await deletionOf(red);
  await untilGone(red);
  const { teamID } = red.names;
  const about = (await fixture.store.auditLog.list({ teamId: teamID, object: "team red" }, undefined, 10)).toReversed();
  expect(about.map(({ actor, action }) => [actor, action]).toSorted()).toEqual([
    ["root", "DELETE /admin/teams/{teamID}"],
    ["server", "delete team"],
  ]);
});

test("frees the name for another team", async () => {
  await expect(createTeam(fixture, { slug: "red" })).rejects.toMatchObject({ status: 409 });
  await deletionOf(red);
  await untilGone(red);
  expect((await createTeam(fixture, { slug: "red" })).id).not.toBe(red.names.teamID);
});

describe("meanwhile", () => {
  test("requests of the team are refused with the reason, and a second deletion changes nothing", async () => {
    const held = Promise.withResolvers<void>();
    fixture.host.beforeDestroy = () => held.promise;
    await deletionOf(red);
    await fixture.until(() => fixture.host.destroyed.length > 0);
    const { credentials, names } = red;
    const reasons = [];
    for (const [auth, method, path] of [
      ["key", "POST", "/v2/sandboxes"],
      ["key", "GET", "/v2/sandboxes"],
      ["key", "POST", "/volumes"],
      ["member", "POST", "/api-keys"],
      ["volume", "GET", `/volumecontent/${names.volumeID}/dir?path=/`],
    ] as const) {
      const request = new Request(`http://localhost${path}`, { method, headers: headersOf(auth, credentials) });
      const response = await fixture.control.handle(request);
      reasons.push([response.status, /is being deleted/.test(await response.text())]);
    }
    expect(new Set(reasons.map(String))).toEqual(new Set(["403,true"]));
    for (const [method, path] of [
      ["PATCH", ""],
      ["POST", "/api-keys"],
      ["POST", "/sandboxes/kill"],
    ]) {
      const body = JSON.stringify({ name: "x" });
      const url = `http://localhost/admin/teams/${names.teamID}${path}`;
      expect((await fixture.control.handle(new Request(url, { method: method ?? "", body }), root)).status).toBe(409);
    }
    expect((await deletionOf(red)).status).toBe(202);
    expect(JSON.parse((await askAsRoot("GET", "/admin/teams")).text)).toContainEqual(
      expect.objectContaining({ slug: "red", state: "deleting" }),
    );
    held.resolve();
    await untilGone(red);
    await fixture.passBy(AUDIT_WRITTEN_EVERY_MS);
    expect((await fixture.store.auditLog.list({ action: "DELETE /admin/teams/{teamID}" }, undefined, 10)).length).toBe(
      2,
    );
    await expectNothingLeft(red);
  });

  test("a create, a snapshot, a volume and a build that had begun leave nothing", async () => {
    const ask = asOf(red);
    const [creating, snapshotting, making, building] = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
    const begun: string[] = [];
    const wait = (what: string, held: PromiseWithResolvers<void> | undefined) => async () => {
      begun.push(what);
      await held?.promise;
    };
    fixture.host.beforeCreate = wait("create", creating);
    fixture.host.beforeSnapshot = wait("snapshot", snapshotting);
    fixture.host.beforeCreateVolume = wait("volume", making);
    fixture.host.buildAs = async () => {
      await wait("build", building)();
      return { isReady: false, step: "base", message: "it was cancelled" };
    };
    const replies = [
      ask("POST", "/sandboxes", { templateID: red.names.alias }),
      ask("POST", `/sandboxes/${red.names.sandboxID}/snapshots`, {}),
      ask("POST", "/volumes", { name: "late" }),
    ];
    const dockerfile = { dockerfile: "FROM debian:12\nRUN true", alias: "late" };
    const bearer = { "X-API-Key": "", ...headersOf("bearer", red.credentials) };
    expect((await fixture.call("POST", "/templates", dockerfile, bearer)).status).toBe(202);
    await fixture.until(() => begun.length === 4);
    expect((await deletionOf(red)).status).toBe(202);
    for (const held of [building, snapshotting, creating, making]) held?.resolve();
    const statuses = (await Promise.all(replies)).map(({ status }) => status);
    for (const status of statuses) expect([201, 403, 404, 500, 503]).toContain(status);
    await untilGone(red);
    await expectNothingLeft(red);
  });

  test("a volume that cannot be removed yet delays it, and the log says so", async () => {
    let isStuck = true;
    fixture.host.beforeRemoveVolume = async () => {
      if (isStuck) throw new Fault(503, "the device is busy");
    };
    await deletionOf(red);
    await fixture.passBy(SOON_MS);
    expect(await isGone(red)).toBe(false);
    expect(fixture.logLines.join("\n")).toMatch(/a team is not deleted yet.*1 of its volumes are not gone yet/);
    isStuck = false;
    await untilGone(red);
    await expectNothingLeft(red);
  });
});

describe("other teams", () => {
  let blue: Tenant;
  beforeEach(async () => {
    blue = await makeTenant(fixture, "blue");
  });

  const view = async () => {
    const seen = [];
    for (const path of ["/v2/sandboxes", "/snapshots", "/v2/templates", "/volumes", "/events/sandboxes"]) {
      seen.push((await asOf(blue)("GET", path)).body);
    }
    const { sandboxID, webhookID } = blue.names;
    seen.push((await asOf(blue)("GET", `/v2/sandboxes/${sandboxID}/logs`)).body);
    seen.push((await asOf(blue)("GET", `/events/webhooks/${webhookID}`)).body);
    return JSON.stringify(seen);
  };

  test("keep everything, also users of both", async () => {
    const user = await userNamed(fixture.store, "red@example.com");
    await addMember(fixture, await teamNamed(fixture.store, "blue"), user);
    await fixture.passBy(SOON_MS);
    const before = await view();
    await deletionOf(red);
    await untilGone(red);
    await fixture.passBy(SOON_MS);
    expect(await view()).toBe(before);
    expect((await fixture.store.people.teamsOf(user.id)).map(({ team }) => team.slug)).toEqual(["blue"]);
    const resumed = await asOf(blue)("POST", `/sandboxes/${blue.names.restingID}/resume`, { timeout: 60 });
    expect(resumed.status).toBe(201);
    expect((await asOf(blue)("POST", "/sandboxes", { templateID: blue.names.alias })).status).toBe(201);
  });

  test("keep sandboxes of its public templates until they end; nothing new starts from those", async () => {
    const { templateID, slug, alias, buildID } = red.names;
    expect((await asOf(red)("PATCH", `/v2/templates/${templateID}`, { public: true })).status).toBe(200);
    const create = () => asOf(blue)("POST", "/sandboxes", { templateID: `${slug}/${alias}`, timeout: 3_600 });
    const [runs, rests] = [(await create()).body.sandboxID, (await create()).body.sandboxID];
    expect((await asOf(blue)("POST", `/sandboxes/${rests}/pause`)).status).toBe(204);
    await deletionOf(red);
    await untilGone(red);
    await fixture.restart();
    expect((await create()).status).toBe(404);
    expect((await asOf(blue)("GET", `/sandboxes/${runs}`)).status).toBe(200);
    expect((await asOf(blue)("POST", `/sandboxes/${rests}/resume`, { timeout: 3_600 })).status).toBe(201);
    expect((await asOf(blue)("POST", `/sandboxes/${runs}/fork`, { count: 1 })).status).toBe(201);
    const snapshot = await asOf(blue)("POST", `/sandboxes/${runs}/snapshots`, {});
    expect(snapshot.status).toBe(201);
    expect(await fixture.store.templates.everById(templateID)).toMatchObject({ teamId: null });
    expect((await fixture.store.templates.builtIn()).map(({ id }) => id)).not.toContain(templateID);
    for (const { sandboxID } of (await asOf(blue)("GET", "/sandboxes")).body) {
      if (![blue.names.sandboxID, blue.names.restingID].includes(sandboxID)) {
        expect((await asOf(blue)("DELETE", `/sandboxes/${sandboxID}`)).status).toBe(204);
      }
    }
    await fixture.passBy(SOON_MS + HOUSEKEEPING_EVERY_MS);
    expect([await fixture.store.templates.everById(templateID), await fixture.store.builds.byId(buildID)]).toEqual([
      undefined,
      undefined,
    ]);
    // The snapshot of the other team has what it needs.
    expect((await asOf(blue)("POST", "/sandboxes", { templateID: snapshot.body.snapshotID })).status).toBe(201);
  });
});

test.each([
  ["the server's own team", () => fixture.firstRun.teamId, 409, "cannot be deleted"],
  ["an unknown team", () => fixture.ids.uuid(), 404, "there is no team"],
  ["no id", () => "red", 404, "there is no team"],
])("%s is refused", async (_, id, status, reason) => {
  const reply = await askAsRoot("DELETE", `/admin/teams/${id()}`);
  expect([reply.status, reply.text]).toEqual([status, expect.stringContaining(reason)]);
});

/** A store and a host that do so many operations once the deletions go on, and then none: the server was killed. */
class Killed {
  /** Operations since the deletions went on; undefined before. */
  done: number | undefined;
  readonly over = Promise.withResolvers<void>();
  /** Not counted. */
  real: Store | undefined;

  constructor(private readonly most: number) {}

  get isOver(): boolean {
    return (this.done ?? 0) > this.most;
  }

  store(real: Store): Store {
    this.real = real;
    const groups = Object.entries(real).map(([name, group]) => [
      name,
      typeof group === "function"
        ? this.#counted(group, name === "close")
        : Object.fromEntries(
            Object.entries(group).map(([method, work]) => [
              method,
              this.#counted(work as (...args: unknown[]) => unknown, false, method === "deletingTeams"),
            ]),
          ),
    ]);
    return Object.fromEntries(groups) as Store;
  }

  before = async (): Promise<void> => this.#take();

  #counted(work: (...args: never[]) => unknown, isFree: boolean, begins = false) {
    return async (...args: never[]) => {
      if (begins) this.done ??= 0;
      else if (!isFree) this.#take();
      return await work(...args);
    };
  }

  #take(): void {
    if (this.done === undefined) return;
    this.done += 1;
    if (!this.isOver) return;
    this.over.resolve();
    throw new Error("the server was killed");
  }
}

describe("a server that is killed", () => {
  async function restartUntil(most: number): Promise<Killed> {
    const killed = new Killed(most);
    fixture.storeAs = (store) => killed.store(store);
    Object.assign(fixture.host, { beforeDestroy: killed.before, beforeRemoveCheckpoint: killed.before });
    Object.assign(fixture.host, { beforeRemoveVolume: killed.before, beforeRemoveLayers: killed.before });
    await fixture.restart();
    // So that waits for what is removed in the background end.
    for (let nth = 0; nth < 6 && !killed.isOver; nth++) {
      // A killed server retries what failed until the test's clock goes on, and does not settle.
      await Promise.race([fixture.control.settled(), killed.over.promise]);
      await fixture.clock.advance(TEAM_DELETION_RETRY_MIN_MS * 2 ** nth, async () => undefined);
    }
    return killed;
  }

  async function restartUnharmed(tenant: Tenant): Promise<void> {
    fixture.storeAs = (store) => store;
    const acts = ["beforeDestroy", "beforeRemoveCheckpoint", "beforeRemoveVolume", "beforeRemoveLayers"] as const;
    for (const each of acts) fixture.host[each] = async () => undefined;
    await fixture.restart();
    await untilGone(tenant);
    await expectNothingLeft(tenant);
  }

  test("once, after so many operations, deletes the rest after its next start", async () => {
    let tenant = red;
    let most = 0;
    for (; most < OPERATIONS_MAX; most += KILLED_EVERY) {
      // As `sandlot teams delete` does while no server runs.
      await fixture.store.people.beginDeletion(tenant.names.teamID, fixture.clock.now());
      const { isOver } = await restartUntil(most);
      await restartUnharmed(tenant);
      if (!isOver) break;
      tenant = await makeTenant(fixture, `red-${most}`);
    }
    expect(most).toBeGreaterThan(40);
    expect(most).toBeLessThan(OPERATIONS_MAX);
  }, 300_000);

  test("again and again, each time one operation later, still comes to the end", async () => {
    await fixture.store.people.beginDeletion(red.names.teamID, fixture.clock.now());
    let most = 0;
    for (; most < OPERATIONS_MAX; most++) {
      const killed = await restartUntil(most);
      if ((await killed.real?.people.team(red.names.teamID)) === undefined) break;
    }
    expect(most).toBeGreaterThan(10);
    await restartUnharmed(red);
  });
});

for (const { title, missing, fresh } of enginesOfControl()) {
  test.skipIf(missing)(`${title}: a team with something of everything is removed`, async () => {
    await using other = await ControlFixture.open(new FakeHost(), await fresh());
    const tenant = await makeTenant(other, "green");
    const { teamID } = tenant.names;
    const client = { address: "", fromTrustedProxy: false, isRoot: true };
    const request = new Request(`http://localhost/admin/teams/${teamID}`, { method: "DELETE" });
    expect((await other.control.handle(request, client)).status).toBe(202);
    await other.until(async () => {
      await other.passBy(TEAM_DELETION_RETRY_MIN_MS);
      return (await other.store.people.team(teamID)) === undefined;
    });
    expect([other.host.running, [...other.host.volumes]]).toEqual([[], []]);
    expect(await other.store.templates.everById(tenant.names.templateID)).toBeUndefined();
    expect(await other.store.webhooks.of(teamID)).toEqual([]);
    expect(await other.store.teamLeftovers.removeSome(teamID, 1)).toBe(0);
  });
}
