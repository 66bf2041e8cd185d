/** Requests a build: finds or creates the template of the given name, and adds a build that waits for its start. */
import { Fault } from "../../contract/fault.ts";
import type { Build } from "../../store/builds.ts";
import type { Team } from "../../store/people.ts";
import type { Tables } from "../../store/store.ts";
import type { Template } from "../../store/templates.ts";
import { findOwnById, parseOwnName } from "../templates/team-template.ts";
import { DEFAULT_TAG, parseTag, parseTemplateReference } from "../templates/template-reference.ts";

export interface BuildRequestOf {
  team: Team;
  /** The requesting user, if known. */
  userId: string | null;
  generation: 1 | 2 | 3;
  /** Given: a new build of this template. */
  templateId?: string | undefined;
  /** `[namespace/]alias[:tag]`; undefined for a template without a name. */
  name: string | undefined;
  tags: readonly string[];
  cpuCount: number;
  memoryMB: number;
  diskSizeMB: number;
}

/** Ids and time for new rows. */
interface Fresh {
  templateId: string;
  buildId: string;
  now: number;
}

export interface RequestedBuild {
  template: Template;
  build: Build;
  /** Earlier builds of the same tags that were never started. They are now over. */
  superseded: Build[];
}

/** Call it inside a transaction. */
export async function requestBuild(tables: Tables, request: BuildRequestOf, fresh: Fresh): Promise<RequestedBuild> {
  const alias = request.name === undefined ? undefined : parseOwnName(request.team, request.name).alias;
  const tags = tagsOf(request.name === undefined ? undefined : parseTemplateReference(request.name).tag, request.tags);
  const template = await templateFor(tables, request, alias, fresh);
  // Before the other builds change: this locks the template's row, as every change of its builds does.
  const build = await tables.builds.request({
    id: fresh.buildId,
    templateId: template.id,
    generation: request.generation,
    tags,
    cpuCount: request.cpuCount,
    memoryMB: request.memoryMB,
    diskSizeMB: request.diskSizeMB,
    createdAt: fresh.now,
  });
  if (build === undefined) throw new Fault(404, `template "${template.id}" does not exist`);
  const superseded: Build[] = [];
  for (const earlier of await tables.builds.unfinished("waiting", template.id)) {
    if (earlier.id === build.id || !earlier.tags.some((tag) => tags.includes(tag))) continue;
    const message = "superseded: a newer build of the same template and tag was asked for before this one was started";
    const over = await tables.builds.failUnstarted(earlier.id, { message, step: null }, fresh.now);
    if (over !== undefined) superseded.push(over);
  }
  return { template: (await tables.templates.byId(template.id)) ?? template, build, superseded };
}

/** The tag in the name comes first; duplicates are removed. `default` counts like any other tag. */
function tagsOf(inName: string | undefined, further: readonly string[]): string[] {
  const all = [...(inName === undefined ? [] : [inName]), ...further].map(parseTag);
  return all.length === 0 ? [DEFAULT_TAG] : [...new Set(all)];
}

async function templateFor(
  tables: Tables,
  request: BuildRequestOf,
  alias: string | undefined,
  fresh: Fresh,
): Promise<Template> {
  const { team } = request;
  if (request.templateId !== undefined) return renamed(tables, team, request.templateId, alias);
  const known = alias === undefined ? undefined : await tables.templates.byAlias(team.slug, alias);
  if (known !== undefined) return known;
  const made = { id: fresh.templateId, teamId: team.id, createdAt: fresh.now, createdBy: request.userId };
  const template = await tables.templates.add(made);
  if (alias !== undefined) await name(tables, team, alias, template.id);
  return template;
}

/** The team's template of this id. A new alias replaces its existing ones. */
async function renamed(tables: Tables, team: Team, id: string, alias: string | undefined): Promise<Template> {
  const template = await findOwnById(tables, team, id);
  if (alias === undefined) return template;
  const owner = await tables.templates.byAlias(team.slug, alias);
  if (owner?.id === id) return template;
  if (owner !== undefined) throw new Fault(403, `the alias "${alias}" belongs to another template, "${owner.id}"`);
  await tables.templates.removeAliases(team.slug, id);
  await name(tables, team, alias, id);
  return template;
}

async function name(tables: Tables, team: Team, alias: string, templateId: string): Promise<void> {
  if (await tables.templates.addAlias(team.slug, alias, templateId)) return;
  throw new Fault(409, `"${alias}" was given to another template at the same moment; try again`);
}
