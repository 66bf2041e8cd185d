/** From a template's name to the template and the build that a sandbox starts from. */
import { Fault } from "../../contract/fault.ts";
import type { SandboxKind } from "../../host/host.ts";
import type { Team } from "../../store/people.ts";
import type { Store } from "../../store/store.ts";
import { type Build, GLOBAL_NAMESPACE, type Template } from "../../store/templates.ts";
import { DEFAULT_TAG, parseTemplateReference, type TemplateReference } from "./template-reference.ts";

export interface StartableTemplate {
  template: Template;
  build: Build;
  /** The template's first alias, empty when it has none. */
  alias: string;
}

/** What a sandbox of this team can be started from, or a Fault 404 that says which part is missing. */
export async function findStartable(store: Store, team: Team, written: string): Promise<StartableTemplate> {
  const reference = parseTemplateReference(written);
  const template = await findVisible(store, team, reference);
  if (template === undefined) {
    throw new Fault(404, `template ${JSON.stringify(written.trim())} does not exist, or this team cannot use it`);
  }
  const tag = reference.tag ?? DEFAULT_TAG;
  const build = await findBuild(store, template, tag);
  if (build === undefined)
    throw new Fault(404, `template "${reference.name}" has no finished build with the tag "${tag}"`);
  const [alias = ""] = await store.templates.aliasesOf(template.id);
  return { template, build, alias };
}

/** A build under its tag, or by its id. What is built in has no tags: its newest build is its default. */
async function findBuild(store: Store, template: Template, tag: string): Promise<Build | undefined> {
  const tagged = await store.templates.taggedBuild(template.id, tag);
  if (tagged !== undefined) return tagged;
  if (tag !== DEFAULT_TAG) return store.templates.readyBuild(template.id, tag);
  const newest = await store.templates.newestReadyBuild(template.id);
  return newest?.checkpoint === null ? newest : undefined;
}

/** For filters: undefined when there is no such template. A tag would mean nothing there and is refused. */
export async function findForFilter(store: Store, team: Team, written: string): Promise<Template | undefined> {
  const reference = parseTemplateReference(written);
  if (reference.tag !== undefined) {
    throw new Fault(400, `the template filter "${written}" has a tag; leave out ":${reference.tag}"`);
  }
  return findVisible(store, team, reference);
}

/** An explicit namespace is meant literally. A bare name is the team's own, then a global one, then a template id. */
async function findVisible(store: Store, team: Team, reference: TemplateReference): Promise<Template | undefined> {
  const { namespace, name } = reference;
  const found =
    namespace === undefined
      ? ((await store.templates.byAlias(team.slug, name)) ??
        (await store.templates.byAlias(GLOBAL_NAMESPACE, name)) ??
        (await store.templates.byId(name)))
      : await store.templates.byAlias(namespace, name);
  return found !== undefined && (found.public || found.teamId === team.id) ? found : undefined;
}

/** What the host must know of a template. */
export function kindOf(template: Template): SandboxKind {
  const { id, image, cpuCount, memoryMB, diskSizeMB, defaultUser, defaultWorkdir } = template;
  return { templateId: id, image, cpuCount, memoryMB, diskSizeMB, defaultUser, defaultWorkdir };
}
