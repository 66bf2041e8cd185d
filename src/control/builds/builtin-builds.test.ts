/** Built-in templates: built on first request, with one build shared by all callers. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { BuildOutcome, BuildRequest } from "../../contract/internal/host.ts";
import type { BuiltinDefinition } from "../templates/builtin-definition.ts";
import { HOUSEKEEPING_EVERY_MS, SUPERSEDED_BUILTIN_KEPT_MS } from "../templates/housekeeping.ts";
import { setKeptReady } from "../templates/operator-templates.ts";
import { BuildCalls } from "../testing/build-calls.ts";
import { ControlFixture, type Reply } from "../testing/control-fixture.ts";
import { builtinBuild } from "./builtin-builds.ts";

let version = "v1";
/** Images that an operator with a full disk removed from the cache. */
const removed = new Set<string>();
const DEFINITION: BuiltinDefinition = {
  id: "sandlotpocket0000000",
  name: "pocket",
  start: { command: "serve", ready: "true" },
  cpuCount: 1,
  memoryMB: 512,
  diskSizeMB: 1024,
  version: () => version,
  hasImage: (image) => !removed.has(image),
  firstBuild: () => `00000000-0000-4000-8000-0000000000${version === "v1" ? "01" : "02"}`,
};

let fixture: ControlFixture;
let outcome: PromiseWithResolvers<BuildOutcome>;
let requests: BuildRequest[];
let endings: number;

beforeEach(async () => {
  version = "v1";
  removed.clear();
  fixture = await ControlFixture.open();
  fixture.definitions = [DEFINITION];
  await fixture.restart();
  [requests, endings] = [[], 0];
  next();
});
afterEach(() => fixture[Symbol.asyncDispose]());

/** From here on builds end when the test says so. */
function next(): void {
  outcome = Promise.withResolvers();
  const { promise } = outcome;
  fixture.host.buildAs = (request) => {
    requests.push(request);
    return promise;
  };
}

const ready = (): BuildOutcome => ({
  isReady: true,
  image: `pocket-${version}`,
  defaultUser: "user",
  defaultWorkdir: "/home/user",
  envVars: {},
  checkpoint: `start-${version}`,
});

const create = (templateID = "pocket"): Promise<Reply> => fixture.call("POST", "/sandboxes", { templateID });

/** The request that made the last sandbox. */
const started = () => fixture.host.requestOf(fixture.host.running.at(-1) ?? "");

/** The build with this number, once the host has started it. */
async function begun(number: number): Promise<Partial<BuildRequest>> {
  await fixture.until(() => requests.length >= number);
  return requests[number - 1] ?? {};
}

async function ended(result: BuildOutcome): Promise<void> {
  const { id = "" } = await begun(++endings);
  outcome.resolve(result);
  await fixture.until(async () => ["ready", "error"].includes((await fixture.store.builds.byId(id))?.status ?? ""));
}

describe("a create from a built-in template that is not built", () => {
  test("starts the build and gets a Retry-After, with the build and its progress", async () => {
    const reply = await create();
    expect([reply.status, reply.body.error_code]).toEqual([503, "template_building"]);
    expect(reply.headers.get("Retry-After")).toBe("5");
    expect(reply.body.message).toContain("build 00000000-0000-4000-8000-000000000001, 0 s so far; it has just begun");
    const { id = "" } = await begun(1);
    fixture.host.logBuild(id, [{ at: fixture.clock.now(), level: "info", message: "Unpacking", step: "base" }]);
    await fixture.advance(7_000);
    expect((await create()).body.message).toContain("7 s so far; step base: Unpacking");
    expect(requests).toMatchObject([
      {
        from: { kind: "builtin", name: "pocket" },
        steps: [],
        start: { command: "serve", ready: "true" },
        memoryMB: 512,
        templateId: DEFINITION.id,
      },
    ]);
  });

  test("and a hundred concurrent ones start one build, under any of its names", async () => {
    const names = ["pocket", "POCKET", DEFINITION.id, "pocket:default", "pocket:v1"];
    const replies = await Promise.all(Array.from({ length: 100 }, (_, at) => create(names[at % names.length])));
    expect(new Set(replies.map(({ status, body }) => `${status} ${body.error_code}`))).toEqual(
      new Set(["503 template_building"]),
    );
    await begun(1);
    expect(requests).toHaveLength(1);
  });

  test("restores the template's processes once the build is ready", async () => {
    await create();
    await ended(ready());
    const reply = await create();
    expect(reply.status).toBe(201);
    expect(started()).toMatchObject({
      checkpoint: "start-v1",
      kind: { image: "pocket-v1", memoryMB: 512 },
    });
    expect((await create("pocket:v1")).status).toBe(201);
    expect(requests).toHaveLength(1);
  });

  test("gets the reason of a failed build once, and then starts another", async () => {
    await create();
    await ended({ isReady: false, step: "base", message: "no mirror can be reached" });
    next();
    const reported = await create();
    expect([reported.status, reported.body.error_code]).toEqual([503, "template_build_failed"]);
    expect(reported.body.message).toContain("no mirror can be reached");
    expect(requests).toHaveLength(1);
    expect((await create()).body.error_code).toBe("template_building");
    expect((await begun(2)).id).not.toBe(requests[0]?.id as string);
    await ended(ready());
    expect((await create()).status).toBe(201);
  });

  test("starts the build again after its root filesystem was removed and the server restarted", async () => {
    await create();
    await ended(ready());
    removed.add("pocket-v1");
    await fixture.restart();
    next();
    expect((await create()).body.error_code).toBe("template_building");
    removed.clear();
    await ended(ready());
    expect((await create("pocket:v1")).status).toBe(201);
    expect((await create()).status).toBe(201);
  });

  test("keeps one sandbox of it ready from then on, unless the setting is zero", async () => {
    const kept = () => fixture.host.kept.find(({ kind }) => kind.templateId === DEFINITION.id);
    await create();
    await ended(ready());
    await fixture.until(() => kept() !== undefined);
    expect(kept()).toMatchObject({ count: 1, checkpoint: "start-v1" });
    await setKeptReady(fixture.store, "default", { written: "pocket", count: 3 }, [DEFINITION], fixture.services);
    await fixture.restart();
    await fixture.until(() => kept()?.count === 3);
  });

  test("of a blocked team starts nothing", async () => {
    await fixture.store.people.setLimits(fixture.firstRun.teamId, { blocked: true });
    expect((await create()).status).toBe(404);
    expect(await fixture.store.builds.unfinished("building", DEFINITION.id)).toEqual([]);
  });

  test("of an unknown tag is rejected, and nothing is built", async () => {
    expect((await create("pocket:v0")).status).toBe(404);
    expect(requests).toEqual([]);
  });

  test("starts the build again after a restart during the build", async () => {
    await create();
    await begun(1);
    await fixture.restart();
    next();
    expect((await create()).body.error_code).toBe("template_building");
    await begun(2);
  });
});

describe("a build ahead of demand", () => {
  const build = (report: (line: string) => void = () => undefined) => fixture.control.buildTemplate("pocket", report);

  test("resolves when the template is ready, and passes the build's log on", async () => {
    const received: string[] = [];
    const built = build((line) => received.push(line));
    const { id = "" } = await begun(1);
    fixture.host.logBuild(id, [{ at: 0, level: "info", message: "Unpacking", step: "base" }]);
    await ended(ready());
    await built;
    expect(received).toEqual(["Unpacking"]);
    expect((await create()).status).toBe(201);
    await build();
    expect(requests).toHaveLength(1);
  });

  test("returns the reason of its failure, and the next request starts another", async () => {
    const built = build();
    built.catch(() => undefined);
    await ended({ isReady: false, step: "base", message: "no mirror can be reached" });
    await expect(built).rejects.toMatchObject({ status: 422, message: expect.stringContaining("no mirror") });
    next();
    expect((await create()).body.error_code).toBe("template_building");
  });

  test("of an unknown name is rejected", async () => {
    await expect(fixture.control.buildTemplate("rocket", () => undefined)).rejects.toMatchObject({ status: 404 });
  });

  test("keeps the previous version in use until the new one is ready, and reuses it after a downgrade", async () => {
    await create();
    await ended(ready());
    version = "v2";
    expect((await create()).status).toBe(201);
    expect(requests).toHaveLength(1);
    next();
    const built = build();
    expect((await create()).status).toBe(201);
    expect(started()?.kind.image).toBe("pocket-v1");
    await ended(ready());
    await built;
    await create();
    expect(started()?.kind.image).toBe("pocket-v2");
    version = "v1";
    await build();
    await create();
    expect([started()?.kind.image, requests.length]).toEqual(["pocket-v1", 2]);
  });
});

test("a build of the previous version is retired a day after it is unused", async () => {
  const round = () => fixture.idleClock.advance(HOUSEKEEPING_EVERY_MS, () => fixture.control.settled());
  await create();
  await ended(ready());
  const { sandboxID } = (await create()).body;
  await fixture.call("POST", `/sandboxes/${sandboxID}/pause`, {});
  version = "v2";
  next();
  const built = fixture.control.buildTemplate("pocket", () => undefined);
  await ended(ready());
  await built;
  await fixture.advance(SUPERSEDED_BUILTIN_KEPT_MS + 1);
  await round();
  expect(fixture.host.keptImages).toEqual(expect.arrayContaining(["pocket-v1", "pocket-v2"]));
  expect((await fixture.call("POST", `/sandboxes/${sandboxID}/connect`, { timeout: 60 })).status).toBe(201);
  await fixture.call("DELETE", `/sandboxes/${sandboxID}`);
  await round();
  expect(fixture.host.keptImages).toContain("pocket-v2");
  expect(fixture.host.keptImages).not.toContain("pocket-v1");
  expect((await create("pocket:v1")).status).toBe(404);
  expect((await create()).status).toBe(201);
  // After a way back it is built again.
  version = "v1";
  next();
  const again = fixture.control.buildTemplate("pocket", () => undefined);
  await ended(ready());
  await again;
  expect((await create("pocket:v1")).status).toBe(201);
});

describe("a build requested by the command", () => {
  test("starts soon, and later requests join it", async () => {
    const { id } = (await builtinBuild(fixture, DEFINITION)) ?? {};
    expect((await builtinBuild(fixture, DEFINITION))?.id).toBe(id);
    expect(requests).toEqual([]);
    await fixture.idleClock.advance(2_000, () => fixture.control.settled());
    expect((await begun(1)).id).toBe(id);
    expect((await create()).body.message).toContain(`build ${id}`);
    await ended(ready());
    expect(await builtinBuild(fixture, DEFINITION)).toMatchObject({ id, status: "ready" });
  });

  test("is started by the next server if none runs", async () => {
    await builtinBuild(fixture, DEFINITION);
    await fixture.restart();
    await begun(1);
  });

  test("of another version than the server's is rejected", async () => {
    const { id = "" } = (await builtinBuild(fixture, { ...DEFINITION, version: () => "v9" })) ?? {};
    await fixture.idleClock.advance(2_000, () => fixture.control.settled());
    const { status, reason } = (await fixture.store.builds.byId(id)) ?? {};
    expect([status, reason?.message]).toEqual(["error", expect.stringContaining("start the server again")]);
    expect(requests).toEqual([]);
  });
});

test("a build from an unbuilt built-in template first builds that, and logs it", async () => {
  const calls = new BuildCalls(fixture);
  const mine = await calls.begin("mine", { fromTemplate: "pocket" });
  expect(await begun(1)).toMatchObject({ from: { kind: "builtin" } });
  expect(await calls.ended(mine)).toMatchObject({
    status: "error",
    reason: { message: expect.stringContaining('template "pocket" is being built') },
  });
});

describe("a built-in template in the lists of every team", () => {
  const listed = async (path: string) => {
    const found = (await fixture.call("GET", path)).body as unknown as { templateID: string }[];
    return found.find(({ templateID }) => templateID === DEFINITION.id);
  };

  test("is public, with its size and its version before it is built", async () => {
    const shown = {
      aliases: ["pocket"],
      names: ["pocket", "pocket:v1"],
      public: true,
      buildStatus: "waiting",
      buildID: "00000000-0000-0000-0000-000000000000",
      memoryMB: 512,
      createdBy: null,
    };
    expect(await listed("/templates")).toMatchObject(shown);
    expect(await listed("/v2/templates")).toMatchObject(shown);
    const { status, body } = await fixture.call("GET", `/templates/${DEFINITION.id}`);
    expect([status, body]).toMatchObject([200, { names: ["pocket", "pocket:v1"], builds: [] }]);
  });

  test("has the built version, and does not show how often others start it", async () => {
    await create();
    await ended(ready());
    await create();
    version = "v2";
    const shown = { names: ["pocket", "pocket:v1"], buildStatus: "ready", spawnCount: 0, lastSpawnedAt: null };
    expect(await listed("/templates")).toMatchObject(shown);
    expect((await fixture.call("GET", `/templates/${DEFINITION.id}`)).body).toMatchObject({ spawnCount: 0 });
  });

  test("does not end the pages", async () => {
    await new BuildCalls(fixture).request("mine");
    const first = await fixture.call("GET", "/v2/templates?limit=1");
    const rest = await fixture.call("GET", `/v2/templates?limit=1&nextToken=${first.headers.get("X-Next-Token")}`);
    const names = [first, rest].flatMap(({ body }) => body as unknown as { aliases: string[] }[]);
    expect(names.map(({ aliases }) => aliases[0]).sort()).toEqual(["mine", "pocket"]);
    expect(rest.headers.get("X-Next-Token")).toBeNull();
  });
});

test("no team can delete, tag, publish or build a built-in template", async () => {
  const refused = await Promise.all([
    fixture.call("DELETE", "/templates/pocket"),
    fixture.call("PATCH", "/v2/templates/pocket", { public: false }),
    fixture.call("POST", "/templates/tags", { target: "pocket", tags: ["mine"] }),
  ]);
  expect(refused.map(({ status }) => status)).toEqual([403, 403, 403]);
});

test("a name that a team published earlier stays that team's", async () => {
  await using other = await ControlFixture.open();
  const reply = await other.call("POST", "/v3/templates", { name: "pocket" });
  const { templateID } = reply.body as unknown as { templateID: string };
  await other.call("PATCH", `/templates/${templateID}`, { public: true });
  other.definitions = [DEFINITION];
  await other.restart();
  expect(await other.store.templates.byAlias("", "pocket")).toMatchObject({ id: templateID });
  expect((await other.call("POST", "/sandboxes", { templateID: DEFINITION.id })).body.error_code).toBe(
    "template_building",
  );
});
