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
export async function storeTemplate(
  fixture: ControlFixture,
  alias: string,
  options: StoredTemplate = {},
): Promise<string> {
  const slug = options.team ?? "default";
  const team = await fixture.store.people.teamBySlug(slug);
  if (team === undefined) throw new Error(`there is no team ${slug}`);
  const id = fixture.ids.templateId();
  const now = fixture.clock.now();
  const times = { createdAt: now, updatedAt: now };
  await fixture.store.templates.add({ ...template(id), ...times, teamId: team.id, public: options.public ?? false });
  await fixture.store.templates.addAlias(slug, alias, id);
  await storeBuild(fixture, id, options.build);
  return id;
}

export async function storeBuild(
  fixture: ControlFixture,
  templateId: string,
  changes: Partial<FinishedBuild> = {},
): Promise<Build> {
  const build = aBuild(fixture.ids.uuid(), templateId, { createdAt: fixture.clock.now(), generation: 3, ...changes });
  const added = await fixture.store.transaction((tables) => tables.builds.addFinished(build));
  if (added === undefined) throw new Error(`template ${templateId} is deleted`);
  return added;
}

/** A template whose only build has a start command. The host has its checkpoint, if there is one. */
export async function storeStarted(fixture: ControlFixture, alias: string, checkpoint: string | null): Promise<Build> {
  const templateId = await storeTemplate(fixture, alias, { build: { tags: ["unstarted"] } });
  const { id, generation, tags, cpuCount, memoryMB, diskSizeMB } = aBuild(fixture.ids.uuid(), templateId);
  const wanted = { id, templateId, generation, tags, cpuCount, memoryMB, diskSizeMB, createdAt: fixture.clock.now() };
  const start = { command: "serve", ready: "curl localhost" };
  const envVars = { A: "b" };
  const result = { image: "base", defaultUser: "user", defaultWorkdir: "/home/user", envVars, guestVersion: "0.6.4" };
  const build = await fixture.store.transaction(async ({ builds }) => {
    await builds.request(wanted);
    await builds.begin(id, start, fixture.clock.now());
    return await builds.finish(id, { ...result, checkpoint }, fixture.clock.now());
  });
  if (build === undefined) throw new Error(`the build of ${alias} could not be stored`);
  if (checkpoint !== null && !fixture.host.checkpoints.includes(checkpoint)) {
    await fixture.host.prepareStart({ name: checkpoint, kind: sandboxKindOf(build), envVars, start });
  }
  return build;
}
