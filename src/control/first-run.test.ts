import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { SandboxKind } from "../contract/internal/host.ts";
import { revokeApiKey } from "./access/keys.ts";
import { ensureFirstRun } from "./first-run.ts";
import { sandboxKindOf } from "./templates/template-lookup.ts";
import { BUILTINS_READY, baseTemplate, ControlFixture } from "./testing/control-fixture.ts";

let fixture: ControlFixture;
beforeEach(async () => {
  fixture = await ControlFixture.open();
});
afterEach(() => fixture[Symbol.asyncDispose]());

async function builtinKind(): Promise<SandboxKind> {
  const build = await fixture.store.builds.tagged(baseTemplate.id, "default");
  if (build === undefined) throw new Error("the built-in template has no build");
  return sandboxKindOf(build);
}

describe("the first run", () => {
  test("makes an operator, a team, a template and a key that is shown once", async () => {
    expect(fixture.apiKey).toMatch(/^e2b_[0-9a-f]{40}$/);
    expect(await fixture.store.people.userByEmail("operator@localhost")).toMatchObject({ id: fixture.firstRun.userId });
    expect(await fixture.store.people.teamBySlug("default")).toMatchObject({ id: fixture.firstRun.teamId, limits: {} });
    expect(await fixture.store.templates.byAlias("", "base")).toMatchObject({
      public: true,
      teamId: null,
      buildCount: 1,
    });
    const again = await ensureFirstRun(fixture, [baseTemplate]);
    expect(again).toEqual({ ...fixture.firstRun, firstApiKey: undefined });
    expect(await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId)).toHaveLength(1);
  });

  test("keeps the template's id when its resources change, and tells the host the new ones", async () => {
    const before = await builtinKind();
    expect(before).toMatchObject({ image: "base", memoryMB: 1024, defaultUser: "user", defaultWorkdir: "/home/user" });
    const changed = { ...baseTemplate, image: "base-2", memoryMB: 2048 };
    await ensureFirstRun(fixture, [changed]);
    await ensureFirstRun(fixture, [changed]);
    const after = { ...before, image: "base-2", memoryMB: 2048 };
    expect(await builtinKind()).toEqual(after);
    expect((await fixture.store.templates.byId(baseTemplate.id))?.buildCount).toBe(2);
    await fixture.restart([changed]);
    await fixture.control.settled();
    expect(fixture.host.kept).toEqual([{ kind: after, count: BUILTINS_READY, checkpoint: null }]);
  });

  test("makes a new key if the team has none left", async () => {
    const [key] = await fixture.store.keys.apiKeysOf(fixture.firstRun.teamId);
    await revokeApiKey(fixture, fixture.firstRun.teamId, key?.id ?? "");
    expect((await ensureFirstRun(fixture, [baseTemplate])).firstApiKey).toMatch(/^e2b_/);
  });

  test("leaves nothing if it is interrupted", async () => {
    const broken = { ...fixture, ids: { ...fixture.ids, templateId: () => "base" } };
    const other = { ...baseTemplate, alias: "other" };
    // The second template gets the id of the first.
    await expect(ensureFirstRun(broken, [other, { ...baseTemplate, alias: "third" }])).rejects.toThrow();
    expect(await fixture.store.templates.byAlias("", "other")).toBeUndefined();
  });
});
