/** Built templates for tests. */
import type { Build, FinishedBuild } from "../../store/builds.ts";
import { aBuild, template } from "../../store/testing/rows.ts";
import { sandboxKindOf } from "../templates/template-lookup.ts";
import type { ControlFixture } from "./control-fixture.ts";

interface StoredTemplate {
  /** Slug of its team. */
  team?: string;
  public?: boolean;
  build?: Partial<FinishedBuild>;
}

/** Stores a template with one ready build and returns its id. */
export async function storeTemplate(f: ControlFixture, alias: string, options: StoredTemplate = {}): Promise<string> {
  const slug = options.team ?? "default";
  const team = await f.store.people.teamBySlug(slug);
  if (team === undefined) throw new Error(`there is no team ${slug}`);
  const id = f.ids.templateId();
  const now = f.clock.now();
  const times = { createdAt: now, updatedAt: now };
  await f.store.templates.add({ ...template(id), ...times, teamId: team.id, public: options.public ?? false });
  await f.store.templates.addAlias(slug, alias, id);
  await storeBuild(f, id, options.build);
  return id;
}

export async function storeBuild(
  f: ControlFixture,
  templateId: string,
  changes: Partial<FinishedBuild> = {},
): Promise<Build> {
  const build = aBuild(f.ids.uuid(), templateId, { createdAt: f.clock.now(), generation: 3, ...changes });
  const added = await f.store.transaction((tables) => tables.builds.addFinished(build));
  if (added === undefined) throw new Error(`template ${templateId} is deleted`);
  return added;
}

/** A template whose only build has a start command. The host has its checkpoint, if there is one. */
export async function storeStarted(f: ControlFixture, alias: string, checkpoint: string | null): Promise<Build> {
  const templateId = await storeTemplate(f, alias, { build: { tags: ["unstarted"] } });
  const { id, generation, tags, cpuCount, memoryMB, diskSizeMB } = aBuild(f.ids.uuid(), templateId);
  const wanted = { id, templateId, generation, tags, cpuCount, memoryMB, diskSizeMB, createdAt: f.clock.now() };
  const start = { command: "serve", ready: "curl localhost" };
  const envVars = { A: "b" };
  const result = { image: "base", defaultUser: "user", defaultWorkdir: "/home/user", envVars, guestVersion: "0.6.4" };
  const build = await f.store.transaction(async ({ builds }) => {
    await builds.request(wanted);
    await builds.begin(id, start, f.clock.now());
    return await builds.finish(id, { ...result, checkpoint }, f.clock.now());
  });
  if (build === undefined) throw new Error(`the build of ${alias} could not be stored`);
  if (checkpoint !== null && !f.host.checkpoints.includes(checkpoint)) {
    await f.host.prepareStart({ name: checkpoint, kind: sandboxKindOf(build), envVars, start });
  }
  return build;
}
