import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { SandboxKind } from "../contract/internal/host.ts";
import { revokeApiKey } from "./access/keys.ts";
import { ensureFirstRun } from "./first-run.ts";
import { sandboxKindOf } from "./templates/template-lookup.ts";
import { BUILTINS_READY, baseTemplate, ControlFixture } from "./testing/control-fixture.ts";

let f: ControlFixture;
beforeEach(async () => {
  f = await ControlFixture.open();
});
afterEach(() => f[Symbol.asyncDispose]());

async function builtinKind(): Promise<SandboxKind> {
  const build = await f.store.builds.tagged(baseTemplate.id, "default");
  if (build === undefined) throw new Error("the built-in template has no build");
  return sandboxKindOf(build);
}

describe("the first run", () => {
  test("makes an operator, a team, a template and a key that is shown once", async () => {
    expect(f.apiKey).toMatch(/^e2b_[0-9a-f]{40}$/);
    expect(await f.store.people.userByEmail("operator@localhost")).toMatchObject({ id: f.firstRun.userId });
    expect(await f.store.people.teamBySlug("default")).toMatchObject({ id: f.firstRun.teamId, limits: {} });
    expect(await f.store.templates.byAlias("", "base")).toMatchObject({ public: true, teamId: null, buildCount: 1 });
    const again = await ensureFirstRun(f, [baseTemplate]);
    expect(again).toEqual({ ...f.firstRun, firstApiKey: undefined });
    expect(await f.store.keys.apiKeysOf(f.firstRun.teamId)).toHaveLength(1);
  });

  test("keeps the template's id when its resources change, and tells the host the new ones", async () => {
    const before = await builtinKind();
    expect(before).toMatchObject({ image: "base", memoryMB: 1024, defaultUser: "user", defaultWorkdir: "/home/user" });
    const changed = { ...baseTemplate, image: "base-2", memoryMB: 2048 };
    await ensureFirstRun(f, [changed]);
    await ensureFirstRun(f, [changed]);
    const after = { ...before, image: "base-2", memoryMB: 2048 };
    expect(await builtinKind()).toEqual(after);
    expect((await f.store.templates.byId(baseTemplate.id))?.buildCount).toBe(2);
    await f.restart([changed]);
    await f.control.settled();
    expect(f.host.kept).toEqual([{ kind: after, count: BUILTINS_READY, checkpoint: null }]);
  });

  test("makes a new key if the team has none left", async () => {
    const [key] = await f.store.keys.apiKeysOf(f.firstRun.teamId);
    await revokeApiKey(f, f.firstRun.teamId, key?.id ?? "");
    expect((await ensureFirstRun(f, [baseTemplate])).firstApiKey).toMatch(/^e2b_/);
  });

  test("leaves nothing if it is interrupted", async () => {
    const broken = { ...f, ids: { ...f.ids, templateId: () => "base" } };
    const other = { ...baseTemplate, alias: "other" };
    // The second template gets the id of the first.
    await expect(ensureFirstRun(broken, [other, { ...baseTemplate, alias: "third" }])).rejects.toThrow();
    expect(await f.store.templates.byAlias("", "other")).toBeUndefined();
  });
});
