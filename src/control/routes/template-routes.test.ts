/** Lists, records, names, tags and visibility of templates. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Template, TemplateTag, TemplateWithBuilds } from "../../contract/management/template.ts";
import { RUNTIME_VERSION } from "../../contract/runtime/version.ts";
import { baseTemplate, ControlFixture, NOW } from "../testing/control-fixture.ts";
import { storeBuild, storeTemplate } from "../testing/stored-templates.ts";

const AT = new Date(NOW).toISOString();
const NO_BUILD = "00000000-0000-0000-0000-000000000000";

let f: ControlFixture;
let stranger: Record<string, string>;
beforeEach(async () => {
  f = await ControlFixture.open();
  stranger = { "X-API-Key": await f.anotherTeam("strangers") };
});
afterEach(() => f[Symbol.asyncDispose]());

async function got<T>(path: string, headers?: Record<string, string>): Promise<T> {
  const { status, body } = await f.call("GET", path, undefined, headers);
  expect([path, status]).toEqual([path, 200]);
  return body as unknown as T;
}

const statusOf = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  (await f.call(method, path, body, headers)).status;

/** A build that is requested, but not begun. */
async function requested(templateId: string, tags: string[], memoryMB = 256): Promise<string> {
  const id = f.ids.uuid();
  const size = { cpuCount: 1, memoryMB, diskSizeMB: 512 };
  const wanted = { id, templateId, generation: 3, tags, ...size, createdAt: f.clock.now() };
  await f.store.transaction((tables) => tables.builds.request(wanted));
  return id;
}

describe("a list of templates", () => {
  test("has every field of a template with its actual value", async () => {
    const id = await storeTemplate(f, "mine", { build: { cpuCount: 4, memoryMB: 2048, guestVersion: "0.6.1" } });
    const [built] = await f.store.builds.ofTemplate(id, undefined, 1);
    await f.advance(1000);
    await f.create({ templateID: "mine" });
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
        createdBy: { id: f.firstRun.userId, email: "operator@localhost" },
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
    const id = await storeTemplate(f, "mine", { build: { tags: ["v1"] } });
    const [other] = await f.store.builds.ofTemplate(id, undefined, 1);
    await requested(id, ["default"]);
    const shown = async () => (await got<Template[]>("/templates"))[0];
    expect(await shown()).toMatchObject({ buildID: other?.id, memoryMB: 1024, buildStatus: "waiting" });
    const fresh = "fresh000000000000000";
    const template = await f.store.templates.byId(id);
    if (template === undefined) throw new Error("the template is gone");
    await f.store.templates.add({ ...template, id: fresh, createdAt: NOW - 1, buildCount: 0 });
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
      ids.push(await storeTemplate(f, alias));
      await f.advance(1);
    }
    await f.call("DELETE", `/templates/${await storeTemplate(f, "gone")}`);
    await f.call("POST", `/sandboxes/${await f.create()}/snapshots`, { name: "shot" });
    const idsOf = (templates: Template[]) => templates.map(({ templateID }) => templateID);
    expect(idsOf(await got("/templates"))).toEqual(ids);
    const first = await f.call("GET", "/v2/templates?limit=2");
    expect(idsOf(first.body as unknown as Template[])).toEqual([ids[2] ?? "", ids[1] ?? ""]);
    const token = first.headers.get("x-next-token") ?? "";
    const last = await f.call("GET", `/v2/templates?limit=2&nextToken=${encodeURIComponent(token)}`);
    expect(idsOf(last.body as unknown as Template[])).toEqual(ids.slice(0, 1));
    expect(last.headers.get("x-next-token")).toBeNull();
    // Once built, a former snapshot is a template.
    const shot = await f.store.templates.byAlias("default", "shot");
    await storeBuild(f, shot?.id ?? "");
    expect(idsOf(await got("/templates"))).toEqual([...ids, shot?.id ?? ""]);
  });

  test("has templates of the key's team only", async () => {
    const own = f.firstRun.teamId;
    for (const path of ["/templates", "/v2/templates"]) {
      expect(await statusOf("GET", `${path}?teamID=${own}`)).toBe(200);
      expect(await statusOf("GET", `${path}?teamID=${f.ids.uuid()}`)).toBe(400);
    }
    expect(await statusOf("GET", "/v2/templates?nextToken=nonsense")).toBe(400);
  });
});

describe("a template's record", () => {
  test("has its builds page by page, the newest first", async () => {
    const id = await storeTemplate(f, "mine");
    const [first] = await f.store.builds.ofTemplate(id, undefined, 1);
    const failed = await requested(id, ["default"]);
    await f.store.builds.fail(failed, { message: "no", step: null }, NOW + 5);
    const newest = await f.call("GET", `/templates/${id}?limit=1`);
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
    const id = await storeTemplate(f, "mine", { public: true });
    expect(await statusOf("GET", "/templates/mine")).toBe(404);
    expect(await statusOf("GET", `/templates/${id}`, undefined, stranger)).toBe(404);
    expect(await statusOf("GET", `/templates/${baseTemplate.id}`)).toBe(404);
  });
});

describe("a name", () => {
  test("is found for its team, 403 if another team published it, otherwise 404", async () => {
    const id = await storeTemplate(f, "mine");
    await storeTemplate(f, "shown", { team: "strangers", public: true });
    const secret = await storeTemplate(f, "secret", { team: "strangers" });
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
    const id = await storeTemplate(f, "shown", { team: "strangers", public: true });
    const started = async () => {
      const answers: unknown[] = [];
      for (const templateID of ["strangers/shown", id, "shown"]) {
        const { status, body } = await f.call("POST", "/sandboxes", { templateID });
        answers.push([status, body.templateID]);
      }
      return answers;
    };
    const [yes, no] = [
      [201, id],
      [404, undefined],
    ];
    expect(await started()).toEqual([yes, yes, no]);
    await f.call("PATCH", "/v2/templates/shown", { public: false }, stranger);
    expect(await started()).toEqual([no, no, no]);
    await f.call("PATCH", "/templates/shown", { public: true }, stranger);
    expect(await started()).toEqual([yes, yes, yes]);
  });
});

describe("PATCH", () => {
  test("publishes by alias or id, returns the names, and without a body changes nothing", async () => {
    const id = await storeTemplate(f, "mine");
    const change = (reference: string, body?: unknown) => f.call("PATCH", `/v2/templates/${reference}`, body);
    for (const reference of ["mine", id, "default%2Fmine"]) {
      expect((await change(reference, { public: true })).body as unknown).toEqual({ names: ["default/mine"] });
    }
    expect((await f.store.templates.byId(id))?.public).toBe(true);
    expect((await change(id)).status).toBe(200);
    expect((await change(id, {})).status).toBe(200);
    expect((await f.store.templates.byId(id))?.public).toBe(true);
  });

  test("of API v1 reserves the bare name for all teams, and releases it", async () => {
    await storeTemplate(f, "mine");
    await storeTemplate(f, "mine", { team: "strangers" });
    const change = (isPublic: boolean, headers?: Record<string, string>) =>
      f.call("PATCH", "/templates/mine", { public: isPublic }, headers);
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
    const known = await storeTemplate(f, "mine", { public: true });
    await storeTemplate(f, known, { team: "strangers" });
    const refused = await f.call("PATCH", `/templates/${known}`, { public: true }, stranger);
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining("form of a template's id")]);
    expect((await f.call("POST", "/sandboxes", { templateID: known })).body.templateID).toBe(known);
  });

  test("rejects the name of a built-in template", async () => {
    await storeTemplate(f, "desktop");
    const refused = await f.call("PATCH", "/templates/desktop", { public: true });
    expect([refused.status, refused.body.message]).toEqual([
      409,
      expect.stringContaining("is reserved for a built-in template"),
    ]);
    expect(await statusOf("POST", "/sandboxes", { templateID: "desktop" })).toBe(201);
    expect((await f.call("POST", "/sandboxes", { templateID: "desktop" }, stranger)).status).toBe(404);
  });

  test("is 404 for another team's id, 403 for a built-in template, 400 in another namespace", async () => {
    const theirs = await storeTemplate(f, "shown", { team: "strangers", public: true });
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
    const id = await storeTemplate(f, "mine");
    const first = await f.store.builds.tagged(id, "default");
    const second = await storeBuild(f, id, { tags: ["v2"] });
    const give = (target: string, tags: string[]) => f.call("POST", "/templates/tags", { target, tags });
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
    expect((await f.call("POST", "/sandboxes", { templateID: "mine:stable" })).status).toBe(201);
    expect(await statusOf("DELETE", "/templates/tags", { name: id, tags: ["stable", "never"] })).toBe(204);
    expect(Object.keys(await meanings()).sort()).toEqual(["default", "old", "v1", "v2"]);
    expect((await f.call("POST", "/sandboxes", { templateID: "mine:stable" })).status).toBe(404);
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
    await storeTemplate(f, "mine");
    expect(await statusOf(method, "/templates/tags", body)).toBe(status);
  });

  test("of another team's template cannot be changed", async () => {
    const theirs = await storeTemplate(f, "shown", { team: "strangers", public: true });
    expect(await statusOf("GET", `/templates/${theirs}/tags`)).toBe(404);
    expect(await statusOf("GET", "/templates/strangers%2Fshown/tags")).toBe(403);
    expect(await statusOf("GET", "/templates/base/tags")).toBe(403);
  });
});

describe("DELETE", () => {
  test("accepts a name with its namespace and tag, and cancels running builds", async () => {
    const id = await storeTemplate(f, "mine", { build: { checkpoint: "c1" } });
    const waiting = await requested(id, ["default"]);
    const building = await requested(id, ["default"]);
    await f.store.builds.begin(building, null, NOW);
    const cancelled: string[] = [];
    f.host.cancelBuild = async (build, reason) => void cancelled.push(`${build}: ${reason}`);
    expect(await statusOf("DELETE", "/templates/default%2Fmine%3Av7")).toBe(204);
    await f.control.settled();
    for (const build of [waiting, building]) {
      expect(await f.store.builds.byId(build)).toMatchObject({
        status: "error",
        reason: { message: "the template was deleted", step: null },
      });
    }
    expect(cancelled.sort()).toEqual([waiting, building].map((each) => `${each}: the template was deleted`).sort());
    expect(await statusOf("GET", `/templates/${id}`)).toBe(404);
    expect(await statusOf("DELETE", `/templates/${id}`)).toBe(404);
    await storeTemplate(f, "mine");
  });

  test("is rejected while the team has sandboxes of it; those of other teams continue without it", async () => {
    await storeTemplate(f, "shown", { public: true });
    const own = await f.create({ templateID: "shown" });
    const create = { templateID: "default/shown", timeout: 600 };
    const { sandboxID: theirs } = (await f.call("POST", "/sandboxes", create, stranger)).body;
    expect(await statusOf("DELETE", "/templates/shown")).toBe(400);
    await f.call("POST", `/sandboxes/${own}/pause`, {});
    expect(await statusOf("DELETE", "/templates/shown")).toBe(400);
    await f.call("DELETE", `/sandboxes/${own}`);
    expect(await statusOf("DELETE", "/templates/shown")).toBe(204);
    expect(await f.store.buildsInUse.images()).toContain("base");
    for (const [act, body] of [
      ["fork", {}],
      ["pause", {}],
      ["resume", { timeout: 600 }],
      ["snapshots", {}],
    ] as const) {
      const { status } = await f.call("POST", `/sandboxes/${theirs}/${act}`, body, stranger);
      expect([act, status]).toEqual([act, act === "pause" ? 204 : 201]);
    }
  });
});
