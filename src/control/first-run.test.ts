import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { listApiKeys, revokeApiKey } from "./access/keys.ts";
import { ensureFirstRun } from "./first-run.ts";
import { baseTemplate, ControlFixture } from "./testing/control-fixture.ts";

let f: ControlFixture;
beforeEach(async () => {
  f = await ControlFixture.open();
});
afterEach(() => f[Symbol.asyncDispose]());

describe("the first run", () => {
  test("makes an operator, a team, a template and a key that is shown once", async () => {
    expect(f.apiKey).toMatch(/^e2b_[0-9a-f]{40}$/);
    expect(await f.store.people.userByEmail("operator@localhost")).toMatchObject({ id: f.firstRun.userId });
    expect(await f.store.people.teamBySlug("default")).toMatchObject({ id: f.firstRun.teamId, limits: {} });
    expect(await f.store.templates.byAlias("", "base")).toMatchObject({ public: true, teamId: null, buildCount: 1 });
    const again = await ensureFirstRun(f, [baseTemplate]);
    expect(again).toEqual({ ...f.firstRun, firstApiKey: undefined });
    expect(await listApiKeys(f, f.firstRun.teamId)).toHaveLength(1);
  });

  test("keeps the template's id when its resources change, and tells the host the new ones", async () => {
    const [before] = await f.control.builtinKinds();
    await ensureFirstRun(f, [{ ...baseTemplate, image: "base-2", memoryMB: 2048 }]);
    expect(before).toMatchObject({ image: "base", memoryMB: 1024, defaultUser: "user", defaultWorkdir: "/home/user" });
    expect(await f.control.builtinKinds()).toMatchObject([{ ...before, image: "base-2", memoryMB: 2048 }]);
  });

  test("makes a key again when the team has none left", async () => {
    const [key] = await listApiKeys(f, f.firstRun.teamId);
    await revokeApiKey(f, f.firstRun.teamId, key?.id ?? "");
    expect((await ensureFirstRun(f, [baseTemplate])).firstApiKey).toMatch(/^e2b_/);
  });

  test("that breaks off leaves nothing", async () => {
    const broken = { ...f, ids: { ...f.ids, templateId: () => "base" } };
    const other = { ...baseTemplate, alias: "other" };
    // The second template gets the id of the first.
    await expect(ensureFirstRun(broken, [other, { ...baseTemplate, alias: "third" }])).rejects.toThrow();
    expect(await f.store.templates.byAlias("", "other")).toBeUndefined();
  });
});
