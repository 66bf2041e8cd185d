/**
 * Resolves a template reference to the template and the build that a sandbox starts from. This folder manages existing
 * templates; it never builds one.
 */
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../../contract/internal/host.ts";
import type { Build } from "../../store/builds.ts";
import type { Team } from "../../store/people.ts";
import type { Sandbox } from "../../store/sandboxes.ts";
import type { Store, Tables } from "../../store/store.ts";
import type { Template } from "../../store/templates.ts";
import { DEFAULT_TAG, parseTemplateReference, type TemplateReference } from "./template-reference.ts";

export interface StartableTemplate {
  template: Template;
  build: Build;
  /** The template's first alias, empty when it has none. */
  alias: string;
}

/** The error code when a template is being built. */
export const TEMPLATE_BUILDING = "template_building";

/** The fault for a built-in template that is not built yet; undefined: it is not built in. */
export type Unbuilt = (template: Template, tag: string) => Promise<Fault | undefined>;

/** What a sandbox of this team can start from, or a Fault 404 that names the missing part. */
export async function findStartable(
  store: Store,
  team: Team,
  written: string,
  unbuilt: Unbuilt,
): Promise<StartableTemplate> {
  const reference = parseTemplateReference(written);
  const template = await findVisible(store, team, reference);
  if (template === undefined) {
    throw new Fault(404, `template ${JSON.stringify(written.trim())} does not exist, or this team cannot use it`);
  }
  const tag = reference.tag ?? DEFAULT_TAG;
  const build = await findBuild(store, template, tag);
  if (build === undefined) {
    const missing = new Fault(404, `template "${reference.name}" has no finished build with the tag "${tag}"`);
    // A blocked team may start nothing, so nothing is built for it either.
    throw (team.limits.blocked ? undefined : await unbuilt(template, tag)) ?? missing;
  }
  const [alias = ""] = await store.templates.aliasesOf(template.id);
  return { template, build, alias };
}

/** A build by its tag or its id. */
export async function findBuild(store: Tables, template: Template, tag: string): Promise<Build | undefined> {
  return (await store.builds.tagged(template.id, tag)) ?? (await store.builds.ready(template.id, tag));
}

/** For filters: undefined when the template does not exist. A tag has no meaning in a filter and is rejected. */
export async function findForFilter(store: Store, team: Team, written: string): Promise<Template | undefined> {
  const reference = parseTemplateReference(written);
  if (reference.tag !== undefined) {
    throw new Fault(400, `the template filter "${written}" has a tag; leave out ":${reference.tag}"`);
  }
  return findVisible(store, team, reference);
}

/** An explicit namespace is taken literally. A bare name is the team's own, then a global one, then a template id. */
async function findVisible(store: Store, team: Team, reference: TemplateReference): Promise<Template | undefined> {
  const { namespace, name } = reference;
  const found =
    namespace === undefined
      ? ((await store.templates.byBareAlias(team.slug, name)) ?? (await store.templates.byId(name)))
      : await store.templates.byAlias(namespace, name);
  return found !== undefined && (found.public || found.teamId === team.id) ? found : undefined;
}

/** The facts about a build that the host needs. */
export function sandboxKindOf(build: Build): SandboxKind {
  const { id, templateId, image, cpuCount, memoryMB, diskSizeMB, defaultUser, defaultWorkdir, wall } = build;
  if (image === null) throw new Fault(500, `build "${id}" has no image, although sandboxes were created from it`);
  const kind = { templateId, image, cpuCount, memoryMB, diskSizeMB, defaultUser, defaultWorkdir };
  return wall === null ? kind : { ...kind, wall };
}

/**
 * The kind that a sandbox was created as. Its build says so, even if its template was rebuilt or deleted since; its
 * resources come from its row.
 */
export async function kindOfSandbox(store: Tables, sandbox: Sandbox): Promise<SandboxKind> {
  const build = await store.builds.byId(sandbox.buildId);
  if (build === undefined) throw new Fault(500, `the build of sandbox "${sandbox.id}" is not in the store`);
  const { cpuCount, memoryMB, diskSizeMB } = sandbox;
  return { ...sandboxKindOf(build), cpuCount, memoryMB, diskSizeMB };
}
