/** Migration of a database with rows of an earlier version, on both engines. */
import { describe, expect, test } from "bun:test";
import { type Engine, openEngine } from "./engine.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations.ts";
import { openStore, type Store } from "./store.ts";
import { bothEngines } from "./testing/engines.ts";
import { aSandbox, LATER, NOW } from "./testing/rows.ts";

/** Rows of version 5: `base`, and a team's snapshot that was made twice under one name. */
async function fillVersion5(engine: Engine): Promise<void> {
  const { sql } = engine;
  await sql`INSERT INTO teams (id, name, slug, limits, created_at) VALUES ('team-1', 'a', 'a', '{}', ${NOW})`;
  for (const [id, team, image, cpuCount] of [
    ["base", null, "base-2", 2],
    ["snapshot", "team-1", "base-1", 4],
    ["gone", "team-1", "base-1", 1],
  ] as const) {
    await sql`INSERT INTO templates (id, team_id, is_public, image, cpu_count, memory_mb, disk_size_mb, default_user,
        default_workdir, created_at, updated_at, created_by, spawn_count, last_spawned_at, build_count, deleted_at)
      VALUES (${id}, ${team}, ${team === null ? 1 : 0}, ${image}, ${cpuCount}, 512, 10240, 'user', '/home/user',
        ${NOW}, ${NOW}, ${null}, 3, ${NOW}, 2, ${id === "gone" ? LATER : null})`;
  }
  for (const [id, templateId, checkpoint, createdAt] of [
    ["base-build", "base", null, NOW],
    // Of two with one time, the one with the smaller id counted as the newer.
    ["snapshot-new", "snapshot", "c2", NOW + 1],
    ["snapshot-old", "snapshot", "c1", NOW + 1],
    ["gone-build", "gone", "c3", NOW],
  ] as const) {
    await sql`INSERT INTO builds (id, template_id, status, created_at, checkpoint, source_sandbox, env_vars)
      VALUES (${id}, ${templateId}, 'ready', ${createdAt}, ${checkpoint}, ${checkpoint === null ? null : "i9"}, '{"A":"b"}')`;
  }
  await sql`INSERT INTO template_tags (template_id, tag, build_id, created_at)
    VALUES ('snapshot', 'default', 'snapshot-new', ${NOW + 1})`;
  await sql`INSERT INTO template_aliases (namespace, alias, template_id, position) VALUES ('a', 'shot', 'snapshot', 0)`;
  await sql`INSERT INTO sandboxes (id, team_id, template_id, build_id, alias, state, execution_id, created_at,
      started_at, end_at, metadata, env_vars, secure, tokens, cpu_count, memory_mb, disk_size_mb)
    VALUES ('i1', 'team-1', 'base', 'base-build', 'base', 'running', 'run-i1', ${NOW}, ${NOW}, ${LATER}, '{}', '{}', 1,
      '[]', 2, 1024, 10240)`;
}

async function expectCarried(store: Store): Promise<void> {
  expect(await store.builds.tagged("base", "default")).toMatchObject({
    id: "base-build",
    number: 1,
    generation: 0,
    status: "ready",
    image: "base-2",
    cpuCount: 2,
    memoryMB: 512,
    diskSizeMB: 10_240,
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    guestVersion: null,
    start: null,
    reason: null,
    finishedAt: NOW,
    logCount: 0,
  });
  expect(await store.builds.ofTemplate("snapshot", undefined, 5)).toMatchObject([
    { id: "snapshot-new", number: 2, image: "base-1", cpuCount: 4, checkpoint: "c2", envVars: { A: "b" } },
    { id: "snapshot-old", number: 1, checkpoint: "c1", sourceSandbox: "i9" },
  ]);
  expect((await store.builds.tagged("snapshot", "default"))?.id).toBe("snapshot-new");
  expect(await store.templates.byAlias("a", "shot")).toMatchObject({ id: "snapshot", keptReady: 0, buildCount: 2 });
  expect((await store.buildsInUse.checkpoints()).sort()).toEqual(["c1", "c2"]);
  expect(await store.buildsInUse.images()).toEqual(["base-1", "base-2"]);
  expect(await store.sandboxes.byId("i1")).toEqual(
    aSandbox("i1", { timeoutSeconds: 0, buildId: "base-build", templateId: "base" }),
  );
}

for (const { title, missing, empty } of bothEngines()) {
  describe.skipIf(missing)(title, () => {
    test("templates, snapshots and sandboxes of version 5 are migrated completely", async () => {
      const url = await empty();
      const engine = await openEngine(url);
      try {
        await migrate(engine, NOW, migrations.slice(0, 5));
        await fillVersion5(engine);
      } finally {
        await engine.close();
      }
      const store = await openStore(url, LATER);
      try {
        await expectCarried(store);
      } finally {
        await store.close();
      }
    });
  });
}
