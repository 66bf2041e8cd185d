/** Lists, records, names, tags and visibility of templates. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Template, TemplateTag, TemplateWithBuilds } from "../../contract/management/template.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import { baseTemplate, ControlFixture, NOW } from "../testing/control-fixture.ts";
import { storeBuild, storeTemplate } from "../testing/stored-templates.ts";

const AT = new Date(NOW).toISOString();
const NO_BUILD = "00000000-0000-0000-0000-000000000000";

let fixture: ControlFixture;
let stranger: Record<string, string>;
beforeEach(async () => {
  fixture = await ControlFixture.open();
  stranger = { "X-API-Key": await fixture.anotherTeam("strangers") };
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function got<T>(path: string, headers?: Record<string, string>): Promise<T> {
  const { status, body } = await fixture.call("GET", path, undefined, headers);
  expect([path, status]).toEqual([path, 200]);
  return body as unknown as T;
}

const statusOf = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  (await fixture.call(method, path, body, headers)).status;

/** A build that is requested, but not begun. */
async function requested(templateId: string, tags: string[], memoryMB = 256): Promise<string> {
  const id = fixture.ids.uuid();
  const size = { cpuCount: 1, memoryMB, diskSizeMB: 512 };
  const wanted = { id, templateId, generation: 3, tags, ...size, createdAt: fixture.clock.now() };
  await fixture.store.transaction((tables) => tables.builds.request(wanted));
  return id;
}

describe("a list of templates", () => {
  test("has every field of a template with its actual value", async () => {
    const id = await storeTemplate(fixture, "mine", { build: { cpuCount: 4, memoryMB: 2048, guestVersion: "0.6.1" } });
    const [built] = await fixture.store.builds.ofTemplate(id, undefined, 1);
    await fixture.advance(1000);
    await fixture.create({ templateID: "mine" });
    await requested(id, ["default"]);
    expect(await got("/templates")).toEqual([
      {
        templateID: id,
        buildID: built?.id,
        cpuCount: 4,
        memoryMB: 2048,
        diskSizeMB: 10_240,
        public: false,
        aliases: ["mine"],
        names: ["default/mine"],
        createdAt: AT,
        updatedAt: new Date(NOW + 1000).toISOString(),
        createdBy: { id: fixture.firstRun.userId, email: "operator@localhost" },
        lastSpawnedAt: new Date(NOW + 1000).toISOString(),
        spawnCount: 1,
        buildCount: 2,
        envdVersion: "0.6.1",
        buildStatus: "waiting",
      },
    ]);
    expect(await got<Template[]>("/templates", stranger)).toEqual([]);
  });

  test("shows the requested values of a template that was never built", async () => {
    const id = await storeTemplate(fixture, "mine", { build: { tags: ["v1"] } });
    const [other] = await fixture.store.builds.ofTemplate(id, undefined, 1);
    await requested(id, ["default"]);
    const shown = async () => (await got<Template[]>("/templates"))[0];
    expect(await shown()).toMatchObject({ buildID: other?.id, memoryMB: 1024, buildStatus: "waiting" });
    const fresh = "fresh000000000000000";
    const template = await fixture.store.templates.byId(id);
    if (template === undefined) throw new Error("the template is gone");
    await fixture.store.templates.add({ ...template, id: fresh, createdAt: NOW - 1, buildCount: 0 });
    await requested(fresh, ["default"], 300);
    expect(await shown()).toMatchObject({
      templateID: fresh,
      buildID: NO_BUILD,
      memoryMB: 300,
      names: [],
      envdVersion: RUNTIME_VERSION,
      lastSpawnedAt: null,
    });
  });

  test("is oldest first without pages, newest first with them, without snapshots and deleted templates", async () => {
    const ids: string[] = [];
    for (const alias of ["a", "b", "c"]) {
      ids.push(await storeTemplate(fixture, alias));
      await fixture.advance(1);
    }
    await fixture.call("DELETE", `/templates/${await storeTemplate(fixture, "gone")}`);
    await fixture.call("POST", `/sandboxes/${await fixture.create()}/snapshots`, { name: "shot" });
    const idsOf = (templates: Template[]) => templates.map(({ templateID }) => templateID);
    expect(idsOf(await got("/templates"))).toEqual(ids);
    const first = await fixture.call("GET", "/v2/templates?limit=2");
    expect(idsOf(first.body as unknown as Template[])).toEqual([ids[2] ?? "", ids[1] ?? ""]);
    const token = first.headers.get("x-next-token") ?? "";
    const last = await fixture.call("GET", `/v2/templates?limit=2&nextToken=${encodeURIComponent(token)}`);
    expect(idsOf(last.body as unknown as Template[])).toEqual(ids.slice(0, 1));
    expect(last.headers.get("x-next-token")).toBeNull();
    // Once built, a former snapshot is a template.
    const shot = await fixture.store.templates.byAlias("default", "shot");
    await storeBuild(fixture, shot?.id ?? "");
    expect(idsOf(await got("/templates"))).toEqual([...ids, shot?.id ?? ""]);
  });

  test("has templates of the key's team only", async () => {
    const own = fixture.firstRun.teamId;
    for (const path of ["/templates", "/v2/templates"]) {
      expect(await statusOf("GET", `${path}?teamID=${own}`)).toBe(200);
      expect(await statusOf("GET", `${path}?teamID=${fixture.ids.uuid()}`)).toBe(400);
    }
    expect(await statusOf("GET", "/v2/templates?nextToken=nonsense")).toBe(400);
  });
});

describe("a template's record", () => {
  test("has its builds page by page, the newest first", async () => {
    const id = await storeTemplate(fixture, "mine");
    const [first] = await fixture.store.builds.ofTemplate(id, undefined, 1);
    const failed = await requested(id, ["default"]);
    await fixture.store.builds.fail(failed, { message: "no", step: null }, NOW + 5);
    const newest = await fixture.call("GET", `/templates/${id}?limit=1`);
    const { builds, ...record } = newest.body as unknown as TemplateWithBuilds;
    expect(record).toEqual({
      templateID: id,
      public: false,
      aliases: ["mine"],
      names: ["default/mine"],
      createdAt: AT,
      updatedAt: AT,
      lastSpawnedAt: null,
      spawnCount: 0,
    });
    const finishedAt = new Date(NOW + 5).toISOString();
    expect(builds).toEqual([
      {
        buildID: failed,
        status: "error",
        createdAt: AT,
        updatedAt: finishedAt,
        finishedAt,
        cpuCount: 1,
        memoryMB: 256,
        diskSizeMB: 512,
        envdVersion: RUNTIME_VERSION,
      },
    ]);
    const token = newest.headers.get("x-next-token");
    const rest = await got<TemplateWithBuilds>(`/templates/${id}?limit=1&nextToken=${token}`);
    expect(rest.builds).toMatchObject([{ buildID: first?.id, status: "ready" }]);
  });

  test("is found only by id, and only by its team", async () => {
    const id = await storeTemplate(fixture, "mine", { public: true });
    expect(await statusOf("GET", "/templates/mine")).toBe(404);
    expect(await statusOf("GET", `/templates/${id}`, undefined, stranger)).toBe(404);
    expect(await statusOf("GET", `/templates/${baseTemplate.id}`)).toBe(404);
  });
});

describe("a name", () => {
  test("is found for its team, 403 if another team published it, otherwise 404", async () => {
    const id = await storeTemplate(fixture, "mine");
    await storeTemplate(fixture, "shown", { team: "strangers", public: true });
    const secret = await storeTemplate(fixture, "secret", { team: "strangers" });
    for (const own of ["mine", "default%2Fmine", "default%2Fmine%3Adefault", "MINE%3ADefault", id]) {
      expect(await got(`/templates/aliases/${own}`)).toEqual({ templateID: id, public: false });
    }
    for (const [alias, status] of [
      ["base", 403],
      ["strangers%2Fshown", 403],
      ["strangers%2Fsecret", 404],
      [secret, 404],
      ["shown", 404],
      ["mine%3Av1", 404],
      ["nothing", 404],
      ["tags", 404],
      ["a%2Fb%2Fc", 400],
    ] as const) {
      expect([alias, await statusOf("GET", `/templates/aliases/${alias}`)]).toEqual([alias, status]);
    }
  });

  test("or id starts a public template of another team, and no longer an unpublished one", async () => {
    const id = await storeTemplate(fixture, "shown", { team: "strangers", public: true });
    const started = async () => {
      const answers: unknown[] = [];
      for (const templateID of ["strangers/shown", id, "shown"]) {
        const { status, body } = await fixture.call("POST", "/sandboxes", { templateID });
        answers.push([status, body.templateID]);
      }
      return answers;
    };
    const [yes, no] = [
      [201, id],
      [404, undefined],
    ];
    expect(await started()).toEqual([yes, yes, no]);
    await fixture.call("PATCH", "/v2/templates/shown", { public: false }, stranger);
    expect(await started()).toEqual([no, no, no]);
    await fixture.call("PATCH", "/templates/shown", { public: true }, stranger);
    expect(await started()).toEqual([yes, yes, yes]);
  });
});

describe("PATCH", () => {
  test("publishes by alias or id, returns the names, and without a body changes nothing", async () => {
    const id = await storeTemplate(fixture, "mine");
    const change = (reference: string, body?: unknown) => fixture.call("PATCH", `/v2/templates/${reference}`, body);
    for (const reference of ["mine", id, "default%2Fmine"]) {
      expect((await change(reference, { public: true })).body as unknown).toEqual({ names: ["default/mine"] });
    }
    expect((await fixture.store.templates.byId(id))?.public).toBe(true);
    expect((await change(id)).status).toBe(200);
    expect((await change(id, {})).status).toBe(200);
    expect((await fixture.store.templates.byId(id))?.public).toBe(true);
  });

  test("of API v1 reserves the bare name for all teams, and releases it", async () => {
    await storeTemplate(fixture, "mine");
    await storeTemplate(fixture, "mine", { team: "strangers" });
    const change = (isPublic: boolean, headers?: Record<string, string>) =>
      fixture.call("PATCH", "/templates/mine", { public: isPublic }, headers);
    for (const _ of [1, 2]) {
      const { status, body } = await change(true);
      expect([status, body as unknown]).toEqual([200, null]);
    }
    expect(await got<Template[]>("/templates")).toMatchObject([{ names: ["mine"], aliases: ["mine"], public: true }]);
    const taken = await change(true, stranger);
    expect([taken.status, taken.body.message]).toEqual([409, expect.stringContaining("taken")]);
    // All or nothing: it is not published either.
    expect(await got<Template[]>("/templates", stranger)).toMatchObject([{ public: false, names: ["strangers/mine"] }]);
    await change(false);
    expect(await got<Template[]>("/templates")).toMatchObject([{ names: ["default/mine"], public: false }]);
    expect((await change(true, stranger)).status).toBe(200);
  });

  test("rejects a name that equals the id of a template", async () => {
    const known = await storeTemplate(fixture, "mine", { public: true });
    await storeTemplate(fixture, known, { team: "strangers" });
    const refused = await fixture.call("PATCH", `/templates/${known}`, { public: true }, stranger);
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining("form of a template's id")]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: known })).body.templateID).toBe(known);
  });

  test("rejects the name of a built-in template", async () => {
    await storeTemplate(fixture, "desktop");
    const refused = await fixture.call("PATCH", "/templates/desktop", { public: true });
    expect([refused.status, refused.body.message]).toEqual([
      409,
      expect.stringContaining("is reserved for a built-in template"),
    ]);
    expect(await statusOf("POST", "/sandboxes", { templateID: "desktop" })).toBe(201);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "desktop" }, stranger)).status).toBe(404);
  });

  test("is 404 for another team's id, 403 for a built-in template, 400 in another namespace", async () => {
    const theirs = await storeTemplate(fixture, "shown", { team: "strangers", public: true });
    for (const [reference, status] of [
      [theirs, 404],
      ["base", 403],
      ["strangers%2Fshown", 400],
      ["nothing", 404],
    ] as const) {
      for (const path of [`/templates/${reference}`, `/v2/templates/${reference}`]) {
        expect([path, await statusOf("PATCH", path, { public: false })]).toEqual([path, status]);
      }
    }
  });
});

describe("tags", () => {
  test("are assigned to the build of a name and tag, listed, and removed", async () => {
    const id = await storeTemplate(fixture, "mine");
    const first = await fixture.store.builds.tagged(id, "default");
    const second = await storeBuild(fixture, id, { tags: ["v2"] });
    const give = (target: string, tags: string[]) => fixture.call("POST", "/templates/tags", { target, tags });
    const given = await give("default/mine", ["V1", "stable", "v1"]);
    expect([given.status, given.body as unknown]).toEqual([201, { tags: ["v1", "stable"], buildID: first?.id }]);
    expect((await give("mine:v2", ["stable"])).body as unknown).toMatchObject({ buildID: second.id });
    expect((await give(`mine:${first?.id}`, ["old"])).body as unknown).toMatchObject({ buildID: first?.id });
    const tags = () => got<TemplateTag[]>("/templates/default%2Fmine/tags");
    const meanings = async () => Object.fromEntries((await tags()).map(({ tag, buildID }) => [tag, buildID]));
    expect(await tags()).toContainEqual({ tag: "v2", buildID: second.id, createdAt: AT });
    expect(await meanings()).toEqual({
      default: first?.id,
      v1: first?.id,
      old: first?.id,
      stable: second.id,
      v2: second.id,
    } as Record<string, string>);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "mine:stable" })).status).toBe(201);
    expect(await statusOf("DELETE", "/templates/tags", { name: id, tags: ["stable", "never"] })).toBe(204);
    expect(Object.keys(await meanings()).sort()).toEqual(["default", "old", "v1", "v2"]);
    expect((await fixture.call("POST", "/sandboxes", { templateID: "mine:stable" })).status).toBe(404);
  });

  test.each([
    ["POST", { target: "mine", tags: [] }, 400],
    ["POST", { target: "mine", tags: ["a b"] }, 400],
    ["POST", { target: "mine", tags: ["5a4d1075-ba5e-4000-8000-000000000001"] }, 400],
    ["POST", { target: "mine:v9", tags: ["v1"] }, 404],
    ["POST", { target: "nothing", tags: ["v1"] }, 404],
    ["POST", { target: "base", tags: ["v1"] }, 403],
    ["POST", { target: "strangers/shown", tags: ["v1"] }, 400],
    ["POST", { tags: ["v1"] }, 400],
    ["DELETE", { name: "mine", tags: ["default"] }, 400],
    ["DELETE", { name: "mine:v1", tags: ["v1"] }, 400],
    ["DELETE", { name: "base", tags: ["v1"] }, 403],
    ["DELETE", { name: "nothing", tags: ["v1"] }, 404],
  ] as const)("%s of %j is %p", async (method, body, status) => {
    await storeTemplate(fixture, "mine");
    expect(await statusOf(method, "/templates/tags", body)).toBe(status);
  });

  test("of another team's template cannot be changed", async () => {
    const theirs = await storeTemplate(fixture, "shown", { team: "strangers", public: true });
    expect(await statusOf("GET", `/templates/${theirs}/tags`)).toBe(404);
    expect(await statusOf("GET", "/templates/strangers%2Fshown/tags")).toBe(403);
    expect(await statusOf("GET", "/templates/base/tags")).toBe(403);
  });
});

describe("DELETE", () => {
  test("accepts a name with its namespace and tag, and cancels running builds", async () => {
    const id = await storeTemplate(fixture, "mine", { build: { checkpoint: "c1" } });
    const waiting = await requested(id, ["default"]);
    const building = await requested(id, ["default"]);
    await fixture.store.builds.begin(building, null, NOW);
    const cancelled: string[] = [];
    fixture.host.cancelBuild = async (build, reason) => void cancelled.push(`${build}: ${reason}`);
    expect(await statusOf("DELETE", "/templates/default%2Fmine%3Av7")).toBe(204);
    await fixture.control.settled();
    for (const build of [waiting, building]) {
      expect(await fixture.store.builds.byId(build)).toMatchObject({
        status: "error",
        reason: { message: "the template was deleted", step: null },
      });
    }
    expect(cancelled.sort()).toEqual([waiting, building].map((each) => `${each}: the template was deleted`).sort());
    expect(await statusOf("GET", `/templates/${id}`)).toBe(404);
    expect(await statusOf("DELETE", `/templates/${id}`)).toBe(404);
    await storeTemplate(fixture, "mine");
  });

  test("is rejected while the team has sandboxes of it; those of other teams continue without it", async () => {
    await storeTemplate(fixture, "shown", { public: true });
    const own = await fixture.create({ templateID: "shown" });
    const create = { templateID: "default/shown", timeout: 600 };
    const { sandboxID: theirs } = (await fixture.call("POST", "/sandboxes", create, stranger)).body;
    expect(await statusOf("DELETE", "/templates/shown")).toBe(400);
    await fixture.call("POST", `/sandboxes/${own}/pause`, {});
    expect(await statusOf("DELETE", "/templates/shown")).toBe(400);
    await fixture.call("DELETE", `/sandboxes/${own}`);
    expect(await statusOf("DELETE", "/templates/shown")).toBe(204);
    expect(await fixture.store.buildsInUse.images()).toContain("base");
    for (const [act, body] of [
      ["fork", {}],
      ["pause", {}],
      ["resume", { timeout: 600 }],
      ["snapshots", {}],
    ] as const) {
      const { status } = await fixture.call("POST", `/sandboxes/${theirs}/${act}`, body, stranger);
      expect([act, status]).toEqual([act, act === "pause" ? 204 : 201]);
    }
  });
});
